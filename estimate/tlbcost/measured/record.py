# SPDX-License-Identifier: GPL-2.0-or-later
"""The measured gain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from tlbcost.common.document import doc
from tlbcost.common.interval import Interval
from tlbcost.copies.run import Also

# Less than this share of the run time is not worth a change of the system: it is the size of the
# differences that code alignment and page colouring make between two builds of one program.
WORTHWHILE_FRACTION = 0.02

Source = Literal["runs in turns", "runs one by one", "copies"]


@dataclass(frozen=True, slots=True)
class TriedMethod:
    """Another way to huge pages that was tried."""

    name: Annotated[str, doc("as for trial --with")]
    total_fraction: Annotated[Interval | None, doc("CPU time saved; null: it says nothing")]
    why_not: Annotated[str | None, doc("why it says nothing")]


@dataclass(frozen=True, slots=True)
class MeasuredGain:
    """What huge pages saved; shares are of the CPU time on base pages, with 90 % intervals."""

    source: Annotated[
        Source,
        doc(
            "whole runs at the same time, in turns, or one after the other; or copies of the "
            "running program, which do the same work in turns"
        ),
    ]
    total_fraction: Annotated[Interval, doc("CPU time that huge pages saved")]
    user_fraction: Annotated[Interval, doc("of that, in user mode: cheaper TLB misses")]
    system_fraction: Annotated[
        Interval | None, doc("of that, in the kernel: page faults; null: copies do not show it")
    ]
    null_fraction: Annotated[
        Interval | None,
        doc("of copies: user time of two on base pages, compared in the same way; about 0"),
    ]
    rounds: Annotated[int, doc("pairs of runs, or copies", minimum=1)]
    dropped: Annotated[Mapping[str, int], doc("slices of copies that were not used, by reason")]
    huge_part: Annotated[
        float | None,
        doc("of the memory that could be on huge pages, what was", minimum=0, maximum=1),
    ]
    seen_fraction: Annotated[
        float, doc("share of the program's time that this stands for", minimum=0, maximum=1)
    ]
    method: Annotated[
        str | None,
        doc("of runs: the way to huge pages, as for trial --with; 'as it runs': by itself"),
    ] = None
    start_cost_s: Annotated[
        Interval | None,
        doc("of runs: kernel time in seconds that huge pages add to one run, mostly when memory is "
            "first touched; negative: they save it"),
    ] = None  # fmt: skip
    growth_bytes: Annotated[
        int | None, doc("of runs: what memory at the peak grew by on huge pages, median")
    ] = None
    more_pairs: Annotated[
        int | None, doc("of runs: pairs that would decide the verdict; null: it is decided")
    ] = None
    others: Annotated[
        tuple[TriedMethod, ...], doc("of runs: ways that reached too little memory, or lost")
    ] = ()
    also: Annotated[
        tuple[Also, ...],
        doc(
            "what was on huge pages besides anonymous memory: text, the code of the program and "
            "of its libraries; shared memory, which copies have for themselves"
        ),
    ] = ()
