# SPDX-License-Identifier: GPL-2.0-or-later
"""Measurement of a machine: runs of the calibrator until the figures are certain.

First everything once; then, with other memory and other orders, the footprints around each knee
that the first pass shows, because a knee counts only if it is found twice; and while the figures
are not certain enough, both again until the time is over. What others disturbed is measured once
more, when the machine is quiet or after a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tlbcost.calibration.calibrator import load_of, run_calibrator, wait_for_quiet
from tlbcost.calibration.consistency import poor_because
from tlbcost.calibration.records import Cost, Extent
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import Table
from tlbcost.system.machine import current_machine, is_online, larger_page_bytes

if TYPE_CHECKING:
    from tlbcost.calibration.analysis.levels import Knee
    from tlbcost.calibration.analysis.quantities import Analysis


# Footprints around a knee, as multiples of it: enough on either side to see both plateaus, and
# steps of 4 % where it must be.
_AROUND = (0.45, 0.55, 0.65, 0.75, 0.83, 0.88, 0.92, 0.96, 1.0, 1.04, 1.08, 1.14, 1.2, 1.3, 1.45,
           1.7, 2.0, 2.4)  # fmt: skip
# Footprints of walks that both passes have, so that a cost is of more than one run.
_WALKS = (4096, 8192, 16384)
# What a quick calibration has for larger pages.
_LARGER_S = 2.0
# A repetition in less time than this would add nothing.
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One run of the calibrator: groups of doc/format.md, and its share of the time."""

    groups: str
    limit_s: float


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """`first` in turn, then the confirmation, then again what is uncertain, within `bound_s`.

    The rest of BOUND_S is for the analysis.
    """

    first: tuple[ProbeStep, ...]
    confirm_s: float
    again: ProbeStep
    bound_s: float


PLANS: dict[Extent, ProbePlan] = {
    "quick": ProbePlan(
        (
            ProbeStep("cycles,faults,near,middle,far,dense", 6.5),
            ProbeStep("loads,stream,memory,residency", 2.9),
        ),
        1.5,
        ProbeStep("near,middle", 1.5),
        10.7,
    ),
    "full": ProbePlan(
        (
            # The largest pages take a tenth of a second to clear.
            ProbeStep("cycles,faults", 4),
            ProbeStep("near,middle,far,dense", 15),
            ProbeStep("caches,chains,regions", 32),
            ProbeStep("loads,stream,memory,residency", 4),
            ProbeStep("near,middle,far", 8),
            ProbeStep("ways,stores,code", 10),
            ProbeStep("large", 14),
            ProbeStep("near,middle,far", 8),
        ),
        8,
        ProbeStep("near,middle,far", 10),
        105,
    ),
}


BOUND_S: dict[Extent, int] = {"quick": 12, "full": 120}


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured, and what the analysis makes of it; `duration_s` of all runs together.

    `poor_because`: why the figures are not to be relied on, as sentences; empty: they are.
    """

    samples: tuple[Table, ...]
    analysis: Analysis
    duration_s: float
    notes: tuple[str, ...]
    poor_because: tuple[str, ...] = ()


class CpuGoneError(Exception):
    """The CPU that is measured went offline; the text is its number."""


def measure(
    extent: Extent,
    page_sizes: Sequence[int],
    announce: Callable[[str], None],
    progress: Callable[[int], None] | None,
    patience_s: float = 0,
) -> Measured:
    """Measure for at most BOUND_S[extent] seconds.

    `page_sizes` in bytes; empty: for a quick one the base page and the huge page of transparent
    huge pages, for a full one every page size that the kernel knows. The base page is always
    among them.

    Where others disturbed it, up to `patience_s` seconds are waited for a quiet machine, and what
    was disturbed is measured again, for BOUND_S once more; 0: neither.

    `announce` gets a sentence when it waits, `progress` the percentage. Raises TlbcostError if the
    calibrator fails, and CpuGoneError.
    """
    session = _Session(PLANS[extent], _sizes(extent, page_sizes), extent == "quick", progress)
    runs = _Runs()
    result, notes = session.whole(session.plan.first, runs)
    poor = poor_because(runs.all(), result.costs)
    took_s = session.elapsed_s()
    if poor and patience_s > 0:
        quiet = wait_for_quiet(patience_s, announce)
        announce(f"{poor[0]}: measuring again what was disturbed, {BOUND_S[extent]} s at most")
        steps = [
            step
            for step, table in zip(session.plan.first, runs.first, strict=False)
            if load_of([table]).reasons
        ]
        if quiet:
            runs = runs.undisturbed() if steps else _Runs()
        session.begin()
        result, notes = session.whole(steps or session.plan.first, runs)
        poor = poor_because(runs.all(), result.costs)
        took_s += session.elapsed_s()
    if progress:
        progress(100)
    return Measured(runs.all(), result, took_s, notes, poor)


@dataclass(slots=True)
class _Runs:
    """Samples of the calibrator's runs: those of the first pass, and what confirms its knees."""

    first: list[Table] = field(default_factory=list)
    second: list[Table] = field(default_factory=list)

    def all(self) -> tuple[Table, ...]:
        return (*self.first, *self.second)

    def undisturbed(self) -> _Runs:
        return _Runs(
            *([t for t in p if not load_of([t]).reasons] for p in (self.first, self.second))
        )


def _sizes(extent: Extent, chosen: Sequence[int]) -> list[int]:
    """Page sizes for the calibrator, in bytes; empty: those that it takes by itself."""
    if extent == "quick" and not chosen:
        return []
    base = current_machine().base_page_bytes
    return sorted({base, *(chosen or larger_page_bytes())})


class _Session:
    def __init__(
        self, plan: ProbePlan, sizes: list[int], quick: bool, progress: Callable[[int], None] | None
    ) -> None:
        self.plan = plan
        self._sizes = [word for size in sizes for word in ("--page-size", str(size))]
        self._quick = quick
        self._progress = progress
        self._seed = 0
        self._cpu: str | None = None
        self._start = time.monotonic()
        self._usual_s = sum(step.limit_s for step in plan.first) + plan.confirm_s

    def begin(self) -> None:
        self._start = time.monotonic()

    def whole(self, steps: Sequence[ProbeStep], runs: _Runs) -> tuple[Analysis, tuple[str, ...]]:
        """Run `steps` and what follows, added to `runs`; the analysis of all, and notes."""
        # Only commands that measure wait for pandas and numpy to load.
        from tlbcost.calibration.analysis.quantities import analyse, candidates

        first, second = runs.first, runs.second
        first += [self.run(step.groups, step.limit_s) for step in steps]
        base = int(first[0].key("base_page_bytes"))
        if self._quick:
            first += self.larger(analyse(first).costs)
        second += self.confirm(candidates(first), base)
        result = analyse(first, second)
        ordinary_s = self.elapsed_s()
        again, because = self.plan.again, result.unsettled
        while result.unsettled and self.left_s() >= 2 * _LEAST_S:
            first.append(self.run(again.groups, again.limit_s))
            second += self.confirm(candidates(first), base)
            result = analyse(first, second)
        notes = []
        longer_s = self.elapsed_s() - ordinary_s
        if because and longer_s >= _LEAST_S:
            notes.append(f"measured {longer_s:.0f} s longer than usual, because {because[0]}")
        if because and result.unsettled:
            notes.append(f"uncertain still when the time was over: {'; '.join(result.unsettled)}")
        return result, tuple(notes)

    def elapsed_s(self) -> float:
        return time.monotonic() - self._start

    def left_s(self) -> float:
        return self.plan.bound_s - self.elapsed_s()

    def run(self, groups: str, limit_s: float, options: Sequence[str] | None = None) -> Table:
        """One run of the calibrator, cut short at the bound; `options` replace the page sizes."""
        self._seed += 1
        limit_s = max(_LEAST_S, min(limit_s, self.left_s()))
        chosen = self._sizes if options is None else options
        words = ["--measure", groups, "--seed", str(self._seed), *chosen]
        if self._cpu is not None:
            words += ["--cpu", self._cpu]
        try:
            table = run_calibrator(words, limit_s, self._share(limit_s))
        except TlbcostError:
            if self._cpu is not None and not is_online(self._cpu):
                raise CpuGoneError(self._cpu) from None
            raise
        if "moved_cpu" in table.header:
            raise CpuGoneError(table.key("cpu"))
        # Cores differ in clock, and some in kind: all runs are of the one that the first was on.
        self._cpu = table.header.get("cpu")
        return table

    def larger(self, costs: Sequence[Cost]) -> list[Table]:
        """Measure chains over larger pages where the TLB holds these, and not pieces of them."""
        sizes = [
            cost.page_size_bytes
            for cost in costs
            if cost.quantity == "tlb_entry_bytes"
            and (cost.interval is None or cost.interval.value == cost.page_size_bytes)
        ]
        options = [word for size in sizes for word in ("--page-size", str(size))]
        return [self.run("large", _LARGER_S, [*options, "--sweeps", "8"])] if sizes else []

    def confirm(self, knees: Sequence[Knee], base: int) -> list[Table]:
        runs: dict[tuple[str, int], set[int]] = {}
        for knee in knees:
            lines = {max(2, round(knee.entries.value * factor)) for factor in _AROUND}
            runs.setdefault(_group(knee, base), set()).update(lines)
        tables = []
        for (group, size), lines in runs.items():
            if group == "near":
                lines.update(_WALKS)
                # A moment later, since a burst of noise outlasts all faults of one run.
                group = "faults,near"
            ladder = ",".join(str(n) for n in sorted(lines))
            options = ["--page-size", str(size), "--lines", ladder]
            tables.append(self.run(group, self.plan.confirm_s / len(runs), options))
        return tables

    def _share(self, limit_s: float) -> Callable[[int], None] | None:
        if self._progress is None:
            return None
        show, done, whole = self._progress, self.elapsed_s(), self._usual_s

        def report(percent: int) -> None:
            # A run that ends early makes the rest look shorter than announced, never longer.
            show(
                min(99, round(100 * (done + limit_s * percent / 100) / max(whole, done + limit_s)))
            )

        return report


def _group(knee: Knee, base: int) -> tuple[str, int]:
    if knee.probe == "code":
        return "code", base
    if knee.access == "store":
        return "stores", base
    return ("near" if knee.page_size_bytes == base else "large"), knee.page_size_bytes
