# SPDX-License-Identifier: GPL-2.0-or-later
"""What is seen of a live process in one interval, with what was seen in the seconds before?"""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from tlbcost.memory.smaps import Mapping
from tlbcost.numa.watch.decide import Conditions
from tlbcost.numa.watch.evidence import (
    LEAST_CPU,
    Evidence,
    Window,
    least_walk_fraction,
    pages_of,
    walk_fraction,
)
from tlbcost.numa.watch.places import Places
from tlbcost.numa.watch.process import Activity, Process, cpu_share, promotable
from tlbcost.numa.watch.sources import Source
from tlbcost.numa.watch.thresholds import Thresholds
from tlbcost.system.huge_pages import huge_settings

# The last windows of each node are kept this much longer than others.
_LAST_OF_NODE, _LONGER = 2, 3


@dataclass(frozen=True, slots=True)
class Observation:
    """At the end of an interval. None: not known."""

    evidence: Evidence
    conditions: Conditions
    walk_fraction: float | None
    huge_bytes: int | None


@dataclass(slots=True)
class Observer:
    """`fault_ns`: time of a page fault; None: not known. `fold`: base pages of a huge page."""

    process: Process
    source: Source
    places: Places
    limits: Thresholds
    interval_s: float
    fault_ns: float | None
    fold: int
    page_bytes: int
    _windows: deque[Window] = field(default_factory=deque)
    _activities: deque[tuple[float, Activity]] = field(default_factory=deque)

    def observe(self, kept_split: Collection[int]) -> Observation:
        """For an interval. Raises TlbcostError, 4, if it may not be watched."""
        begin = time.monotonic()
        windows = self.source.sample(self.interval_s, self._wanted())
        rest = self.interval_s - (time.monotonic() - begin)
        if rest > 0:
            time.sleep(rest)
        activity = self.process.look()
        self.source.note(activity)
        at = time.monotonic()
        self._activities.append((at, activity))
        self._windows += (
            replace(each, node=activity.node_of.get(each.thread, 0)) if each.node < 0 else each
            for each in windows
        )
        self._forget(at)
        mappings = self.process.mappings()
        evidence = self.evidence(since_s=0.0)
        return Observation(
            evidence=evidence,
            conditions=self._conditions(evidence, activity, mappings, kept_split),
            walk_fraction=walk_fraction(self._windows),
            huge_bytes=sum(each.anonymous_huge_bytes for each in mappings) if mappings else None,
        )

    def _wanted(self) -> int | None:
        """A thread that ran, of the node with fewest windows; None: all are equal.

        Windows of a node stand for its CPU time, so that which node is sampled is free.
        """
        if not self._activities:
            return None
        activity = self._activities[-1][1]
        share = cpu_share((each for _, each in self._activities), self.process.nodes)
        seen = Counter(window.node for window in self._windows)
        nodes = [node for node, part in enumerate(share) if part >= LEAST_CPU]
        if not nodes:
            return None
        fewest = min(nodes, key=lambda node: seen[node])
        threads = [thread for thread in activity.ran if activity.node_of[thread] == fewest]
        return random.choice(threads) if threads else None

    def _forget(self, at: float) -> None:
        """What is too old: of intervals longer than a second as many count, and the last windows
        of a node some time longer, so that no other node waits for a new one.
        """
        age = self.limits.evidence_s * max(self._activities[-1][1].seconds, 1.0)
        newer: Counter[int] = Counter()
        kept: deque[Window] = deque()
        for window in reversed(self._windows):
            limit = age if newer[window.node] >= _LAST_OF_NODE else _LONGER * age
            if at - window.at_s <= limit:
                kept.appendleft(window)
            newer[window.node] += 1
        self._windows = kept
        while at - self._activities[0][0] > age:
            self._activities.popleft()

    def evidence(self, *, since_s: float) -> Evidence:
        """Of the windows since then, with pages where they are now."""
        windows = [each for each in self._windows if each.at_s > since_s]
        page = pages_of(windows)
        node, huge = self.places.find(windows, page)
        share = cpu_share((each for _, each in self._activities), self.process.nodes)
        return Evidence(windows, page, node, huge, share, self.fold)

    def _conditions(
        self,
        evidence: Evidence,
        activity: Activity,
        mappings: Sequence[Mapping],
        kept_split: Collection[int],
    ) -> Conditions:
        fault_s = None if self.fault_ns is None else activity.faults * self.fault_ns / 1e9
        least = least_walk_fraction(self._windows)
        rate = self.source.dram_per_us
        regions: Collection[int] = ()
        if least is not None and least >= self.limits.promote:
            number = evidence.page[~evidence.huge] // self.fold
            regions = promotable(mappings, number, self.fold * self.page_bytes)
        return Conditions(
            least_walk_fraction=least,
            fault_fraction=None if fault_s is None else fault_s / max(activity.seconds, 1e-3),
            maptu=None if rate is None else rate / self.process.nodes,
            huge_allowed=self._huge_allowed(mappings),
            promotable=regions,
            kept_split=kept_split,
        )

    def _huge_allowed(self, mappings: Sequence[Mapping]) -> bool | None:
        """Whether its page faults get huge pages. None: not known, or nothing here changes it."""
        own, mode = self.process.huge_allowed(), huge_settings(self.process.pid).thp
        if mode not in ("always", "madvise"):
            return None
        if own is False or mode == "always":
            return own
        memory = [m for m in mappings if m.kind in ("heap", "anonymous") and m.eligible is not None]
        may = sum(m.resident_bytes for m in memory if m.eligible)
        return 2 * may >= sum(m.resident_bytes for m in memory) if memory else None
