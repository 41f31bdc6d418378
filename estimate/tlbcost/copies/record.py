# SPDX-License-Identifier: GPL-2.0-or-later
"""What was copied of a program, what became of the copies, and what did they cost it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from tlbcost.common.document import doc
from tlbcost.common.interval import Interval


@dataclass(frozen=True, slots=True)
class CopiesRecord:
    """Of all runs together. `attempts`: by what became of each, a word of the `copies` table."""

    attempts: Annotated[
        Mapping[str, int], doc("copies by what became of them: followed, or why there is none")
    ]
    ended: Annotated[
        Mapping[str, int], doc("windows by what ended them: enough, a system call, a fault, ...")
    ]
    windows: Annotated[int, doc("windows with references", minimum=0)]
    pauses: Annotated[int, doc("times that a thread of the program was stopped", minimum=0)]
    median_pause_ns: Annotated[int | None, doc("half of them were shorter", minimum=0)]
    longest_pause_ns: Annotated[int | None, doc("the longest", minimum=0)]
    added_cpu_fraction: Annotated[
        float | None,
        doc("CPU time that pauses and copy-on-write added, as a share of the program's", minimum=0),
    ]
    seen_fraction: Annotated[
        float | None,
        doc("share of the program's CPU time that windows stand for", minimum=0, maximum=1),
    ]
    calling: Annotated[
        int,
        doc(
            "of the windows, those that a system call ended, or that recorded calls continued",
            minimum=0,
        ),
    ] = 0


@dataclass(frozen=True, slots=True)
class CopiedRun:
    """What windows of copies say of the whole program.

    `saving`: the share of user time that huge pages save; None: there is no timed window. `windows`
    of them were timed, of `sampled_references` of the program's `references`. `most_walks`: how
    many times the walks that they add up to there may be, at most.
    """

    record: CopiesRecord
    core: str | None
    windows: int
    references: int
    sampled_references: int
    saving: Interval | None
    most_walks: float = 1.0
