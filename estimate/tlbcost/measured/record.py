# SPDX-License-Identifier: GPL-2.0-or-later
"""What was measured of base and of huge pages, and how sure is it?"""

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

# Two runs on the same pages that differ by more than this on average: the machine is too busy.
BUSY_FRACTION = 0.02


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
        Interval, doc("user time of two on base pages, compared in the same way: should be about 0")
    ]
    rounds: Annotated[int, doc("rounds of runs, or copies", minimum=1)]
    dropped: Annotated[
        Mapping[str, int], doc("rounds, or slices of copies, that were not used, by reason")
    ]
    huge_part: Annotated[
        float | None,
        doc("of the memory that could be on huge pages, what was", minimum=0, maximum=1),
    ]
    seen_fraction: Annotated[
        float, doc("share of the program's time that this stands for", minimum=0, maximum=1)
    ]
    returned_fraction: Annotated[
        float | None,
        doc(
            "kernel time that the first run on huge pages took beyond that of the later ones, as "
            "the host had to back them again; null: this host takes none back, or not known"
        ),
    ] = None
    also: Annotated[
        tuple[Also, ...],
        doc(
            "what was on huge pages besides anonymous memory: text, the code of the program and "
            "of its libraries; shared memory, which copies have for themselves"
        ),
    ] = ()


class TooBusy(str):
    """Why this machine cannot measure now: later it may."""

    __slots__ = ()


def too_busy(null: Interval) -> TooBusy | None:
    """Why this machine cannot measure now; None: it can."""
    if abs(null.value) <= BUSY_FRACTION:
        return None
    return TooBusy(
        f"this machine is too busy to measure now: two runs on base pages differ by "
        f"{100 * abs(null.value):.1f} %"
    )
