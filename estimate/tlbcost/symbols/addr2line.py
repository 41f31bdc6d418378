# SPDX-License-Identifier: GPL-2.0-or-later
"""Which line of source is an instruction from? By addr2line of binutils, where there is one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from tlbcost.symbols.binutils import answers

_LINE = re.compile(r"(.+):(\d+)(?: \(discriminator \d+\))?")

# The innermost function, also where it is inlined, its file without folders, and the line.
Source = tuple[str, str, int]


def source_lines(path: str, addresses: Sequence[int]) -> dict[int, Source]:
    """What is known of addresses in an ELF file, as its segments have them; empty: nothing."""
    command = ["addr2line", "--functions", "--demangle", f"--exe={path}"]
    words = answers(command, [f"{address:#x}" for address in addresses], each=2)
    if words is None:
        return {}
    found = {}
    for address, function, where in zip(addresses, words[::2], words[1::2], strict=True):
        line = _LINE.fullmatch(where)
        if function != "??" and line is not None and int(line[2]):
            found[address] = (function, PurePosixPath(line[1]).name, int(line[2]))
    return found
