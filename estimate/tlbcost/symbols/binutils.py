# SPDX-License-Identifier: GPL-2.0-or-later
"""What do addr2line and c++filt report? Empty answers without binutils."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

# Debug information of a browser takes longer; then it is not used.
_TIMEOUT_S = 20
_LINE = re.compile(r"(.+):(\d+)(?: \(discriminator \d+\))?")
_MANGLED = ("_Z", "_R")

# The innermost function, even if inlined, its file without folders, and the line.
Source = tuple[str, str, int]


def source_lines(path: str, addresses: Sequence[int]) -> dict[int, Source]:
    """The source of addresses in an ELF file (as in its segments), where known."""
    command = ["addr2line", "--functions", "--demangle", f"--exe={path}"]
    words = _answers(command, [f"{address:#x}" for address in addresses], each=2)
    if words is None:
        return {}
    found = {}
    for address, function, where in zip(addresses, words[::2], words[1::2], strict=True):
        line = _LINE.fullmatch(where)
        if function != "??" and line is not None and int(line[2]):
            found[address] = (function, PurePosixPath(line[1]).name, int(line[2]))
    return found


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Demangled C++ and Rust names; other names are left out."""
    mangled = sorted(name for name in names if name.startswith(_MANGLED) and "\n" not in name)
    readable = _answers(["c++filt"], mangled)
    return {} if readable is None else dict(zip(mangled, readable, strict=True))


def _answers(command: Sequence[str], lines: Sequence[str], each: int = 1) -> list[str] | None:
    """The lines that the program prints for these, `each` for one.

    None where there is no such program, it fails or takes too long, or prints another number.
    """
    program = shutil.which(command[0])
    if program is None or not lines:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    found = done.stdout.splitlines()
    return found if len(found) == each * len(lines) else None
