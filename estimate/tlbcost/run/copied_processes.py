# SPDX-License-Identifier: GPL-2.0-or-later
"""Which processes besides a program's own come from following it in copies?

tlbcost-copies has helpers, and copies are children of the launcher or of the program itself. Each
copy shows all the memory of the process that it was made of, which must not be counted twice.
"""

from __future__ import annotations

import os
from pathlib import Path

# The kernel keeps 15 characters of a name.
_HELPERS = frozenset({"tlbcost-injecto", "tlbcost-worker", "tlbcost-copies", "tlbcost-calibra"})
_FIRST_TO_BE_KILLED = "1000"


def is_helper(pid: int) -> bool:
    """A process of tlbcost-copies, or the probe that runs between two runs."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() in _HELPERS
    except (OSError, UnicodeDecodeError):
        return False


def is_copy(pid: int) -> bool:
    """A copy: it has no open file at all, and goes first when memory is short."""
    folder = Path(f"/proc/{pid}")
    try:
        score = (folder / "oom_score_adj").read_text(encoding="ascii").strip()
        return score == _FIRST_TO_BE_KILLED and not os.listdir(folder / "fd")  # noqa: PTH208
    except OSError:
        return False
