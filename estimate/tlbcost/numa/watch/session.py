# SPDX-License-Identifier: GPL-2.0-or-later
"""Watch of a live process, interval by interval."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tlbcost.common.cleanup import Stopped
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import version
from tlbcost.memory.smaps import Mapping
from tlbcost.numa.placement import machine_nodes
from tlbcost.numa.watch.decide import REACTIVE, Action, Thresholds, Verdict, WatchConditions, decide
from tlbcost.numa.watch.document import Done, Effect, WatchDocument, WatchInterval
from tlbcost.numa.watch.evidence import (
    LEAST_CPU,
    PageEvidence,
    ThreadWindow,
    least_walk_fraction,
    pages_of,
    walk_fraction,
)
from tlbcost.numa.watch.feedback import Feedback, worth_it
from tlbcost.numa.watch.process import (
    ActionResult,
    Activity,
    Actor,
    AssumedPlaces,
    LiveProcess,
    PagePlaces,
    check_rights,
    cpu_share,
    promotable,
)
from tlbcost.numa.watch.sources import Copies, Source, pmu_samples
from tlbcost.system.huge_pages import huge_settings
from tlbcost.system.machine import Machine, huge_page_bytes

# The last windows of each node are kept this much longer than others.
_LAST_OF_NODE, _LONGER = 2, 3


@dataclass(frozen=True, slots=True)
class Observation:
    """At the end of an interval. None: not known."""

    evidence: PageEvidence
    conditions: WatchConditions
    walk_fraction: float | None
    huge_bytes: int | None


@dataclass(slots=True)
class Observer:
    """What the process does, interval by interval."""

    request: WatchRequest
    source: Source
    places: PagePlaces
    _windows: deque[ThreadWindow] = field(default_factory=deque)
    _activities: deque[tuple[float, Activity]] = field(default_factory=deque)

    def observe(self, kept_split: Collection[int]) -> Observation:
        """For an interval. Raises TlbcostError, 4, if it may not be watched."""
        begin = time.monotonic()
        windows = self.source.sample(self.request.interval_s, self._wanted())
        rest = self.request.interval_s - (time.monotonic() - begin)
        if rest > 0:
            time.sleep(rest)
        activity = self.places.process.look()
        self.source.note(activity)
        at = time.monotonic()
        self._activities.append((at, activity))
        self._windows += (
            replace(each, node=activity.node_of.get(each.thread, 0)) if each.node < 0 else each
            for each in windows
        )
        self._forget(at)
        mappings = self.places.process.mappings()
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
        share = cpu_share((each for _, each in self._activities), self.places.process.nodes)
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
        age = self.request.limits.evidence_s * max(self._activities[-1][1].seconds, 1.0)
        newer: Counter[int] = Counter()
        kept: deque[ThreadWindow] = deque()
        for window in reversed(self._windows):
            limit = age if newer[window.node] >= _LAST_OF_NODE else _LONGER * age
            if at - window.at_s <= limit:
                kept.appendleft(window)
            newer[window.node] += 1
        self._windows = kept
        while at - self._activities[0][0] > age:
            self._activities.popleft()

    def evidence(self, *, since_s: float) -> PageEvidence:
        """Of the windows since then, with pages where they are now."""
        windows = [each for each in self._windows if each.at_s > since_s]
        page = pages_of(windows)
        node, huge = self.places.find(windows, page)
        share = cpu_share((each for _, each in self._activities), self.places.process.nodes)
        return PageEvidence(windows, page, node, huge, share, self.places.fold)

    def _conditions(
        self,
        evidence: PageEvidence,
        activity: Activity,
        mappings: Sequence[Mapping],
        kept_split: Collection[int],
    ) -> WatchConditions:
        fault_ns = self.request.fault_ns
        fault_s = None if fault_ns is None else activity.faults * fault_ns / 1e9
        least = least_walk_fraction(self._windows)
        rate = self.source.dram_per_us
        regions: Collection[int] = ()
        if least is not None and least >= self.request.limits.promote:
            number = evidence.page[~evidence.huge] // self.places.fold
            regions = promotable(mappings, number, self.places.fold * self.places.page_bytes)
        return WatchConditions(
            least_walk_fraction=least,
            fault_fraction=None if fault_s is None else fault_s / max(activity.seconds, 1e-3),
            maptu=None if rate is None else rate / self.places.process.nodes,
            huge_allowed=self._huge_allowed(mappings),
            promotable=regions,
            kept_split=kept_split,
        )

    def _huge_allowed(self, mappings: Sequence[Mapping]) -> bool | None:
        """Whether its page faults get huge pages. None: not known, or nothing here changes it."""
        own, mode = self.places.process.huge_allowed(), huge_settings(self.places.process.pid).thp
        if mode not in ("always", "madvise"):
            return None
        if own is False or mode == "always":
            return own
        memory = [m for m in mappings if m.kind in ("heap", "anonymous") and m.eligible is not None]
        may = sum(m.resident_bytes for m in memory if m.eligible)
        return 2 * may >= sum(m.resident_bytes for m in memory) if memory else None


_MOST_INTERVALS = 10_000

# What to do with an interval and the actions in it; True: the user wants no more.
Show = Callable[[WatchDocument, WatchInterval, tuple[Done, ...]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """`nodes`: assumed ones; None: this machine's. `fault_ns`: of a page fault; None: not known.

    `samples`: None: of the PMU, or else of copies. `seconds`: how long; None: until the process
    ends.
    """

    pid: int
    nodes: int | None
    apply: bool
    interval_s: float
    seconds: float | None
    limits: Thresholds
    caches: tuple[int, int]
    caches_source: str
    samples: Literal["pmu", "copies"] | None
    fault_ns: float | None
    machine: Machine


class Session:
    """One watch. Raises TlbcostError: 1 without the process, 4 if it cannot be watched here."""

    def __init__(self, request: WatchRequest) -> None:
        if request.nodes is None and len(machine_nodes()) < 2:
            why = "this machine has one NUMA node: its pages can be nowhere else"
            hint = f"tlbcost numa --nodes 4 --watch {request.pid} shows what four nodes would do"
            raise TlbcostError(why, hint, CANNOT_MEASURE)
        if request.apply:
            check_rights()
        self._request = request
        self._process = LiveProcess(request.pid, request.nodes)
        self._limits = limits = request.limits
        page_bytes = request.machine.base_page_bytes
        self._fold = fold = (huge_page_bytes() or 2 << 20) // page_bytes
        self._source, self._why_copies = _source(request, page_bytes)
        places = PagePlaces if request.nodes is None else AssumedPlaces
        self._places = places(self._process, fold, page_bytes)
        self._observer = Observer(request, self._source, self._places)
        self._actor = Actor(self._process, fold, page_bytes) if request.apply else None
        self._feedback = Feedback(limits, fold)
        self._intervals: deque[WatchInterval] = deque(maxlen=_MOST_INTERVALS)
        self._actions: list[Done] = []
        self._effects: list[Effect] = []
        self._began = time.monotonic()

    def run(self, show: Show) -> tuple[WatchDocument, Stopped | None]:
        """Until the process ends, the time is over, the user wants no more, or a signal: that."""
        stopped = None
        try:
            ended = self._watch(show)
        except Stopped as stop:
            ended, stopped = "a signal ended it", stop
        finally:
            if self._actor is not None:
                self._actor.put_back()
        return self._document(ended), stopped

    def _watch(self, show: Show) -> str:
        request = self._request
        end = None if request.seconds is None else self._began + request.seconds
        while end is None or time.monotonic() < end:
            why = self._process.gone()
            if why is not None:
                return why
            first = len(self._actions)
            interval = self._interval()
            self._intervals.append(interval)
            if show(self._document("it continues"), interval, tuple(self._actions[first:])):
                return "the user wanted no more"
        return "the time is over"

    def _interval(self) -> WatchInterval:
        seen = self._observer.observe(self._feedback.kept_split)
        verdict = decide(seen.evidence, seen.conditions, self._limits, self._feedback.wanted)
        self._feedback.note_wish(enough=verdict.enough, wants_split=verdict.wants_split)
        self._judge()
        self._act(verdict, seen.evidence)
        return WatchInterval(
            at_s=time.monotonic() - self._began,
            windows=seen.evidence.windows,
            samples=seen.evidence.samples,
            figures=verdict.figures,
            walk_fraction=seen.walk_fraction,
            fault_fraction=seen.conditions.fault_fraction,
            huge_bytes=seen.huge_bytes,
            reason="; ".join(verdict.reasons),
        )

    def _judge(self) -> None:
        trial = self._feedback.trial
        if trial is None:
            return
        evidence = self._observer.evidence(since_s=trial.at_s)
        if not evidence.windows or evidence.unseen_nodes:
            return
        after = evidence.score()
        judged = trial.judged
        undone = self._feedback.judge(after, evidence.windows, time.monotonic())
        if undone is None and not (trial.judged and not judged):
            return
        if not judged:
            self._effects.append(
                Effect(
                    at_s=trial.at_s - self._began,
                    kinds=tuple(action.kind for action in trial.actions),
                    before=trial.score,
                    after=after,
                    helped=worth_it(trial.score, after, self._limits),
                )
            )
        for action in undone or ():
            self._do(action, taken_back=True)

    def _act(self, verdict: Verdict, evidence: PageEvidence) -> None:
        at = time.monotonic()
        actions = self._feedback.allowed(verdict.actions, at)
        # Of a huge page, by its first base page, and any that was not seen.
        was = _nodes(evidence, self._fold) if actions else {}
        before: dict[int, int] = {}
        done = []
        for action in actions:
            moved, worked = self._do(action, taken_back=False)
            before |= {page: node for page in moved if (node := was.get(page)) is not None}
            if worked:
                done.append(action)
            if not worked and action.kind == "stop_huge":
                # What is split would be made huge again.
                break
        if done and (self._actor or self._request.nodes):
            self._feedback.begin(tuple(done), verdict.figures.now, before, at)

    def _do(self, action: Action, *, taken_back: bool) -> tuple[list[int], bool]:
        """The pages that moved, and whether anything was done, or would have been."""
        outcome = ActionResult()
        if self._actor is not None:
            outcome = self._actor.do(action)
        elif isinstance(self._places, AssumedPlaces):
            self._places.suppose(action)
            outcome = ActionResult(moved=action.pages.tolist())
        at = time.monotonic()
        real = self._request.nodes is None
        if outcome.failed is not None or (self._actor is None and real):
            # What fails, or what is only said while nothing changes, not each time.
            self._feedback.paused_until[action.kind] = at + self._limits.pause_s
        self._feedback.note_moves(outcome.moved, at)
        self._feedback.note_refusals(outcome.stuck, outcome.stuck_regions)
        would = self._actor is None
        self._actions.append(
            Done(
                at_s=at - self._began,
                kind=action.kind,
                would=would,
                taken_back=taken_back,
                reason=action.reason,
                pages=len(action.pages),
                regions=len(action.regions),
                moved_pages=None if would else len(outcome.moved),
                done_regions=None if would else outcome.done_regions,
                refused=dict(outcome.refused),
                failed=outcome.failed,
                time_ns=None if would else outcome.ns,
            )
        )
        worked = outcome.failed is None and bool(
            would
            or outcome.moved
            or outcome.done_regions
            or action.kind not in (*REACTIVE, "promote")
        )
        return outcome.moved, worked

    def _document(self, ended: str) -> WatchDocument:
        request = self._request
        return WatchDocument(
            tlbcost_version=version(),
            date=now(),
            machine=request.machine,
            pid=request.pid,
            nodes=self._process.nodes,
            assumed=request.nodes is not None,
            applied=request.apply,
            interval_s=request.interval_s,
            watched_s=time.monotonic() - self._began,
            ended=ended,
            source=self._source.kind,
            l2_bytes=request.caches[0],
            l3_share_bytes=request.caches[1],
            cost=self._source.cost,
            overhead_fraction=self._source.cost.fraction,
            thresholds=request.limits,
            intervals=tuple(self._intervals),
            actions=tuple(self._actions),
            effects=tuple(self._effects),
            left_alone=self._feedback.refused_pages(),
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterable[str]:
        if self._source.kind == "copies":
            yield f"caches: {self._request.caches_source}"
        else:
            yield (
                "samples of a PMU do not say what page walks cost: nothing is made huge for them "
                "(--samples copies)"
            )
        if self._source.dram_per_us is None:
            yield "rates of DRAM accesses are not known, and their thresholds not applied"
        if self._why_copies is not None:
            yield f"windows of copies, not samples of the PMU: {self._why_copies}"
        if self._request.fault_ns is None:
            yield "page-fault time: NA, this machine is not calibrated (tlbcost calibrate)"
        if self._request.nodes is not None:
            yield "nodes are assumed: a page is on the one that was seen to use it most"
        if self._actor is not None and self._actor.asked:
            yield "its memory asked for huge pages (madvise), which cannot be taken back"


def _source(request: WatchRequest, page_bytes: int) -> tuple[Source, str | None]:
    """What was asked for; else the PMU, or copies and why. Raises TlbcostError, 4, of neither."""
    if request.samples == "copies":
        return Copies(request.pid, request.caches, request.limits.overhead), None
    overhead, assumed = request.limits.overhead, request.nodes is not None
    try:
        return pmu_samples(request.pid, overhead, page_bytes, assumed=assumed), None
    except TlbcostError as error:
        if request.samples == "pmu":
            raise
        return Copies(request.pid, request.caches, overhead), str(error)


def _nodes(evidence: PageEvidence, fold: int) -> dict[int, int]:
    """The node of each page that was seen, and of all base pages of huge pages."""
    found = dict(zip(evidence.page.tolist(), evidence.node.tolist(), strict=True))
    for unit in evidence.pages.is_huge.nonzero()[0].tolist():
        first = int(evidence.pages.unit_number[unit]) * fold
        node = int(evidence.pages.unit_first[unit])
        found |= dict.fromkeys(range(first, first + fold), node)
    return found
