# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost numa --watch --json` write?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from tlbcost.common.document import Part, doc
from tlbcost.numa.locality import Score
from tlbcost.numa.watch.decide import Figures, Kind
from tlbcost.numa.watch.sources import SamplingCost
from tlbcost.numa.watch.thresholds import Thresholds
from tlbcost.system.machine import Machine


class Done(Part, frozen=True, kw_only=True):
    """One action, or what would have been one."""

    at_s: Annotated[float, doc("seconds since the watch began", minimum=0)]
    kind: Annotated[Kind, doc("what is done")]
    would: Annotated[bool, doc("it was only said: without --apply, or on assumed nodes")]
    taken_back: Annotated[bool, doc("it undoes an action that did not help")]
    reason: Annotated[str, doc("the figure that it follows from")]
    pages: Annotated[int, doc("base or huge pages to move", minimum=0)]
    regions: Annotated[int, doc("huge pages to split, or to make", minimum=0)]
    moved_pages: Annotated[
        int | None, doc("of `pages`, those that are where they should be; null: would", minimum=0)
    ]
    done_regions: Annotated[int | None, doc("of `regions`, those done; null: would", minimum=0)]
    refused: Annotated[Mapping[str, int], doc("the kernel's reasons, and how many pages")]
    failed: Annotated[str | None, doc("why all of it failed; null: it did not")]
    time_ns: Annotated[int | None, doc("how long it took; null: would", minimum=0)]


class Effect(Part, frozen=True, kw_only=True):
    """What the reactive actions of one moment changed."""

    at_s: Annotated[float, doc("when they were done", minimum=0)]
    kinds: Annotated[tuple[Kind, ...], doc("what was done")]
    before: Annotated[Score, doc("by the samples of the seconds before")]
    after: Annotated[Score, doc("by those since")]
    helped: Annotated[bool, doc("local accesses or balance improved by the threshold")]


class WatchInterval(Part, frozen=True, kw_only=True):
    """One interval. null: not known."""

    at_s: Annotated[float, doc("its end, in seconds since the watch began", minimum=0)]
    windows: Annotated[int, doc("windows in the evidence", minimum=0)]
    samples: Annotated[int, doc("accesses in the evidence", minimum=0)]
    figures: Annotated[Figures, doc("what they say")]
    walk_fraction: Annotated[
        float | None, doc("share of L2 misses that page walks on base pages cause", minimum=0)
    ]
    fault_fraction: Annotated[
        float | None, doc("of the time, page faults of the thread with most", minimum=0)
    ]
    huge_bytes: Annotated[int | None, doc("anonymous memory on huge pages", minimum=0)]
    reason: Annotated[str, doc("what decided")]


class WatchDocument(Part, frozen=True, kw_only=True):
    """A watch of a live process. null: not obtained."""

    schema: Annotated[
        Literal["tlbcost-numa-watch-1"], doc("form of this document and its version")
    ] = "tlbcost-numa-watch-1"
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    date: Annotated[str, doc("UTC, ISO 8601", format="date-time")]
    machine: Annotated[Machine, doc("the machine")]
    pid: Annotated[int, doc("the process")]
    nodes: Annotated[int, doc("nodes, real or assumed", minimum=2)]
    assumed: Annotated[bool, doc("the nodes are not this machine's: --nodes")]
    applied: Annotated[bool, doc("actions were done: --apply")]
    interval_s: Annotated[float, doc("length of an interval, as asked for", minimum=0)]
    watched_s: Annotated[float, doc("how long it was watched", minimum=0)]
    ended: Annotated[str, doc("why the watch ended")]
    source: Annotated[
        Literal["copies", "ibs", "pebs"],
        doc("where samples are from: windows of copies, or the PMU of an AMD or Intel CPU"),
    ]
    l2_bytes: Annotated[int, doc("modelled L2 of a thread; DRAM is beyond the caches", minimum=0)]
    l3_share_bytes: Annotated[int, doc("modelled share of the L3", minimum=0)]
    cost: Annotated[SamplingCost, doc("what sampling cost")]
    overhead_fraction: Annotated[
        float | None, doc("the same, of the process's CPU time", minimum=0)
    ]
    thresholds: Annotated[Thresholds, doc("from which figures on it acted")]
    intervals: Annotated[tuple[WatchInterval, ...], doc("the intervals, the last 10,000 at most")]
    actions: Annotated[tuple[Done, ...], doc("what was done, or would have been")]
    effects: Annotated[tuple[Effect, ...], doc("and what it changed")]
    left_alone: Annotated[int, doc("pages that cannot move, and are not tried again", minimum=0)]
    notes: Annotated[tuple[str, ...], doc("what to know about these figures")]
