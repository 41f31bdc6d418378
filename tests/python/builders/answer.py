# SPDX-License-Identifier: GPL-2.0-or-later
"""A made-up estimate without any caveat, for tests to change one thing in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from builders.tree import GOLDEN, there
from tlbcost.answer.estimate import with_words
from tlbcost.answer.gains import spread_part
from tlbcost.answer.record import Estimate, Evidence, Simulated, Surroundings
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Calibration, Obtained, PageCosts
from tlbcost.common.units import Interval
from tlbcost.memory.first_touch import Stalls, TouchTimes
from tlbcost.model import overlap
from tlbcost.model.overlap import ModelledWindows
from tlbcost.processors.published import Geometry, Level, LevelSource, PageSizeGeometry, TlbLevel
from tlbcost.run.outcome import Outcome, Run
from tlbcost.simulator.counts import (
    ProcessCounts,
    Side,
    SideCounts,
    Touched,
    total_counts,
    total_footprint,
)
from tlbcost.simulator.run import Simulation
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
        (level, size): LevelSource("measured", "measured (some entries)")
        for level in LEVELS
        for size in (BASE, HUGE)
    },
)
RUN = Run(1_000_000_000, 900_000_000, 100_000_000, 70_000, 0, 300 << 20)


def interval(value: float, error: float = 0.1) -> Interval:
    """A value with a relative error on both sides."""
    return Interval(value, value * (1 - error), value * (1 + error))


BASE_COSTS = PageCosts(
    BASE, 65536, interval(2.0), interval(0.6), interval(35.0), interval(8.0), interval(5.0),
    interval(200),
)  # fmt: skip
HUGE_COSTS = PageCosts(
    HUGE, 128, interval(2.0), interval(0.5), interval(10.0), interval(2.0), interval(1.5),
    interval(50_000),
)  # fmt: skip


def counts(walks: int) -> dict[tuple[int, Side], SideCounts]:
    return {
        (BASE, "load"): SideCounts(walks + 1000, 1000, walks),
        (BASE, "store"): SideCounts(150, 50, 100),
        (BASE, "fetch"): SideCounts(30, 0, 30),
        (HUGE, "load"): SideCounts(walks // 2, walks // 2, 0),
        (HUGE, "store"): SideCounts(130, 0, 130),
        (HUGE, "fetch"): SideCounts(3, 0, 3),
    }


def process(walks: int = 10_000_000, pid: int = 100) -> ProcessCounts:
    return ProcessCounts(pid, 1, "/opt/app", 1, counts(walks), Touched(65536, 130, 200))


def outcomes(runs: Sequence[Run], codes: Sequence[int] = ()) -> tuple[Outcome, ...]:
    ended = codes if len(codes) == len(runs) else [0] * len(runs)
    return tuple(
        Outcome(run, "", None, code, None, None) for run, code in zip(runs, ended, strict=True)
    )


def altered(found: Estimate, **values: object) -> Estimate:
    """The estimate with parts of it, or of what it is made from, changed; and its words anew.

    `runs` and `codes` are those of the native runs.
    """
    if "runs" in values or "codes" in values:
        runs = values.pop("runs", found.given.runs)
        codes = values.pop("codes", found.given.codes)
        values["native"] = outcomes(runs, codes)  # type: ignore[arg-type]
    own = {field.name for field in fields(Estimate)}
    given = {name: values.pop(name) for name in list(values) if name not in own}
    changed = replace(found.given, **given)  # type: ignore[arg-type]
    return with_words(replace(found, given=changed, **values))  # type: ignore[arg-type]


def rebuilt(found: Estimate) -> Estimate:
    before, costs = there(found.simulated), (there(found.base_costs), there(found.huge_costs))
    summed = total_counts(before.processes)
    footprint = total_footprint(before.processes, HUGE // BASE)
    gain = overlap.predicted(found.given.runs, summed, footprint, *costs)
    changed = replace(before, counts=summed, gain=gain)
    part = spread_part(found.given, costs, footprint, changed, None)
    return altered(found, footprint=footprint, simulated=changed, gain=gain, spread_part=part)


def simulated(found: Estimate, **values: object) -> Estimate:
    return altered(found, simulated=replace(there(found.simulated), **values))  # type: ignore[arg-type]


def simulated_evidence(simulation: Simulation, **values: object) -> Evidence:
    """Of one run and a real calibration, to be concluded from."""
    given = Evidence(
        argv=("app",), path=Path("app"), machine=MACHINE, surroundings=None, huge_page_bytes=HUGE,
        calibrated=Obtained(read_calibration(GOLDEN / "calibration.tsv"), "from a test"),
        native=(simulation.outcome,), geometry=GEOMETRY, simulation=simulation,
    )  # fmt: skip
    return replace(given, **values)  # type: ignore[arg-type]


def estimated(walks: int = 10_000_000) -> Estimate:
    """An estimate of a program that is worth trying (with the default number of walks)."""
    processes = (process(walks),)
    summed = total_counts(processes)
    footprint = total_footprint(processes, HUGE // BASE)
    runs = (RUN, RUN, RUN)
    gain = overlap.predicted(runs, summed, footprint, BASE_COSTS, HUGE_COSTS)
    calibration = Calibration(MACHINE, "2026-01-01T00:00:00Z", "0.0.1", 1.0, ())
    return Estimate(
        version="0.0.1",
        date="2026-01-02T03:04:05Z",
        given=Evidence(
            argv=("./app", "an argument"),
            path=Path("./app"),
            machine=MACHINE,
            surroundings=Surroundings(has_pmu=False, glibc=(2, 36), glibc_tunables=None),
            huge_page_bytes=HUGE,
            calibrated=Obtained(calibration, "cached"),
            native=outcomes(runs),
        ),
        notes=(),
        base_costs=BASE_COSTS,
        huge_costs=HUGE_COSTS,
        footprint=footprint,
        simulated=Simulated(GEOMETRY, RUN, 0, processes, summed, gain),
        counted=None,
        gain=gain,
    )


def overlapped(found: Estimate, saving: Interval | None = None) -> Estimate:
    """The estimate where windows were modelled that save this share of the user time (0.3)."""
    saving = saving or interval(0.3)
    assert found.footprint is not None
    sample = ModelledWindows("width=6", 200, 10**9, 20_000_000, 1.0, saving)
    simple, runs = there(found.simulated).gain, found.given.runs
    expected = overlap.expected_gain(saving, runs, simple.bound_fraction)
    gain = overlap.with_overlap(simple, expected, runs, found.footprint)
    return altered(simulated(found, sample=sample, gain=gain), gain=gain)


def killed(pid: int = 7) -> ProcessCounts:
    return replace(process(pid=pid), threads=None, counts=None, touched=None)


def stalls(base_ns: int, huge_ns: int) -> Stalls:
    """First touches, of which the worst took so long."""
    base, huge = (
        TouchTimes(
            page_size_bytes=size, touches=9, median_ns=1, p99_ns=1, p999_ns=1, worst_ns=worst
        )
        for size, worst in ((4096, base_ns), (2 << 20, huge_ns))
    )
    return Stalls(base=base, huge=huge, huge_fraction=1.0)
