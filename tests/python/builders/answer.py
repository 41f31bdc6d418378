# SPDX-License-Identifier: GPL-2.0-or-later
"""A made-up estimate without any caveat, for tests to change one thing in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tlbcost.answer.content import CalibrationUsed, Content, Simulated
from tlbcost.answer.surroundings import Surroundings
from tlbcost.calibration.costs import PageCosts
from tlbcost.common.interval import Interval
from tlbcost.model import miss_costs, overlap
from tlbcost.model.overlap import Sample
from tlbcost.processors.geometry import Geometry, Level, LevelSource, PageSizeGeometry, TlbLevel
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import (
    ProcessCounts,
    Side,
    SideCounts,
    Touched,
    total_counts,
    total_footprint,
)
from tlbcost.system.machine import Machine

BASE, HUGE = 4096, 2097152

LEVELS: tuple[Level, ...] = ("dtlb", "itlb", "stlb")
MACHINE = Machine(
    "GenuineIntel", "6", "207", "2", "A made-up CPU", "0x1", None, "6.1.0", BASE, "madvise", None
)
GEOMETRY = Geometry(
    PageSizeGeometry(BASE, TlbLevel(96, 6), TlbLevel(256, 8), TlbLevel(2048, 16)),
    PageSizeGeometry(HUGE, TlbLevel(32, 4), TlbLevel(32, 8), TlbLevel(2048, 16)),
    {
        (level, size): LevelSource("measured", "measured (so many entries)")
        for level in LEVELS
        for size in (BASE, HUGE)
    },
)
RUN = Run(1_000_000_000, 900_000_000, 100_000_000, 70_000, 0, 300 << 20)


def interval(value: float, error: float = 0.1) -> Interval:
    """A value with a relative error on both sides."""
    return Interval(value, value * (1 - error), value * (1 + error))


BASE_COSTS = PageCosts(
    BASE,
    65536,
    interval(2.0),
    interval(0.6),
    interval(35.0),
    interval(8.0),
    interval(5.0),
    interval(200),
)
HUGE_COSTS = PageCosts(
    HUGE,
    128,
    interval(2.0),
    interval(0.5),
    interval(10.0),
    interval(2.0),
    interval(1.5),
    interval(50_000),
)


def counts(walks: int) -> dict[tuple[int, Side], SideCounts]:
    """Counts of a program that takes so many page walks for loads on base pages."""
    return {
        (BASE, "load"): SideCounts(walks + 1000, 1000, walks),
        (BASE, "store"): SideCounts(150, 50, 100),
        (BASE, "fetch"): SideCounts(30, 0, 30),
        (HUGE, "load"): SideCounts(walks // 2, walks // 2, 0),
        (HUGE, "store"): SideCounts(130, 0, 130),
        (HUGE, "fetch"): SideCounts(3, 0, 3),
    }


def process(walks: int = 10_000_000, pid: int = 100) -> ProcessCounts:
    """A process of 256 MiB."""
    return ProcessCounts(pid, 1, "/opt/app", 1, counts(walks), Touched(65536, 130, 200))


def rebuilt(content: Content) -> Content:
    """The content with what follows from its parts computed anew."""
    assert content.simulated is not None
    assert content.base_costs is not None
    assert content.huge_costs is not None
    processes = content.simulated.processes
    summed = total_counts(processes)
    footprint = total_footprint(processes, HUGE // BASE)
    estimate = miss_costs.predicted(
        content.runs, summed, footprint, content.base_costs, content.huge_costs
    )
    changed = replace(content.simulated, counts=summed, estimate=estimate)
    return replace(content, footprint=footprint, simulated=changed, estimate=estimate)


def simulated(content: Content, **values: object) -> Content:
    """The content with parts of its simulation changed."""
    assert content.simulated is not None
    changed = replace(content.simulated, **values)  # type: ignore[arg-type]
    return replace(content, simulated=changed)


def content(walks: int = 10_000_000) -> Content:
    """An estimate of a program that is worth trying (with the default number of walks)."""
    processes = (process(walks),)
    summed = total_counts(processes)
    footprint = total_footprint(processes, HUGE // BASE)
    runs = (RUN, RUN, RUN)
    estimate = miss_costs.predicted(runs, summed, footprint, BASE_COSTS, HUGE_COSTS)
    return Content(
        version="0.0.1",
        date="2026-01-02T03:04:05Z",
        backend="sim",
        notes=(),
        machine=MACHINE,
        surroundings=Surroundings(has_pmu=False, glibc=(2, 36), glibc_tunables=None),
        argv=("./app", "an argument"),
        path=Path("./app"),
        runs=runs,
        codes=(0, 0, 0),
        calibration=CalibrationUsed(MACHINE, "2026-01-01T00:00:00Z", "cached", ()),
        huge_page_bytes=HUGE,
        base_costs=BASE_COSTS,
        huge_costs=HUGE_COSTS,
        footprint=footprint,
        simulated=Simulated(GEOMETRY, RUN, 0, processes, summed, estimate),
        counted=None,
        estimate=estimate,
    )


def overlapped(content: Content, saving: Interval | None = None) -> Content:
    """The content where windows were modelled that save this share of the user time (0.3)."""
    saving = saving or interval(0.3)
    assert content.simulated is not None
    assert content.footprint is not None
    sample = Sample("width=6", 200, 10**9, 20_000_000, 1.0, saving)
    simple = content.simulated.estimate
    expected = overlap.expected_gain(saving, content.runs, simple.bound_fraction)
    estimate = overlap.with_overlap(simple, expected, content.runs, content.footprint)
    return replace(simulated(content, sample=sample, estimate=estimate), estimate=estimate)


def killed(pid: int = 7) -> ProcessCounts:
    """A process that left nothing but its name."""
    return replace(process(pid=pid), threads=None, counts=None, touched=None)
