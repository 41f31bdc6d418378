# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up records of predictions and the runs that checked them."""

from __future__ import annotations

from dataclasses import replace

from builders.tree import printed
from tlbcost.accuracy.record import PairedRun, PairOfRuns, Prediction, Record, TriedProgram, Way
from tlbcost.accuracy.report import print_record
from tlbcost.common.units import Interval
from tlbcost.system.machine import Machine

MACHINE = Machine(
    "GenuineIntel", "6", "207", "2", "Some CPU", "0x1", "kvm", "6.1", 4096, "madvise", None
)
S = 1_000_000_000


def paired_run(user_s: float, system_s: float = 0.1, wall_s: float | None = None) -> PairedRun:
    wall = user_s + system_s if wall_s is None else wall_s
    return PairedRun(round(wall * S), round(user_s * S), round(system_s * S), 1000, 1 << 30)


def pairs(base_user_s: float, huge_user_s: float, n: int = 3) -> tuple[PairOfRuns, ...]:
    return tuple(
        PairOfRuns(paired_run(base_user_s), paired_run(huge_user_s), 1 << 30, (1 << 30) - (1 << 20))
        for _ in range(n)
    )


def program(
    name: str, base: float, huge: float, expected: tuple[float, float, float], bound: float
) -> TriedProgram:
    value, low, high = expected
    return TriedProgram(
        name, f"./{name} --size 1G", "glibc-hugetlb",
        Prediction(bound, Interval(value, low, high), 0.05), pairs(base, huge),
    )  # fmt: skip


def record(*programs: TriedProgram) -> Record:
    return Record(MACHINE, "2026-11-21T00:00:00Z", "1.0", programs)


TWO = record(
    # Run times of 1 s: the user part saves 0.3 and 0.1 of it.
    program("chase", 0.9, 0.6, (0.25, 0.1, 0.4), 0.5),
    program("sort", 0.9, 0.8, (0.2, 0.15, 0.25), 0.05),
)


def measured(name: str, base: float, huge: float, gain: Interval, null: float) -> TriedProgram:
    one = program(name, base, huge, (gain.value, gain.low, gain.high), 0.6)
    assert one.prediction is not None
    ways: dict[Way, Interval] = {"measured": gain, "overlap": Interval(2 * gain.value, 0, 1)}
    said = replace(one.prediction, ways=ways, null_fraction=null, verdict="not_proven")
    return replace(one, prediction=said, in_turns=True)


def text_of(some: Record) -> str:
    return printed(print_record, some, details=True)


def modelled(overlap: Interval | None, *, with_ways: bool = True) -> Record:
    one = TWO.programs[0]
    assert one.prediction is not None
    ways: dict[Way, Interval] = {"simple": one.prediction.expected_fraction}
    said = one.prediction
    if overlap is not None:
        ways["overlap"] = overlap
        said = replace(said, expected_fraction=overlap)
    return record(replace(one, prediction=replace(said, ways=ways if with_ways else {})))
