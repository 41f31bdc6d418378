# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs of binutils that answer lines with lines."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

# Debug information of a browser takes longer; what is known without has to do then.
_TIMEOUT_S = 20


def answers(command: Sequence[str], lines: Sequence[str], each: int = 1) -> list[str] | None:
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
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    found = done.stdout.splitlines()
    return found if len(found) == each * len(lines) else None
