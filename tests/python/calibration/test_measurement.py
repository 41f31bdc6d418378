# SPDX-License-Identifier: GPL-2.0-or-later
"""Is every knee measured twice, and more only while something is uncertain and time is left?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from tlbcost.calibration import measurement
from tlbcost.calibration.analysis import quantities
from tlbcost.calibration.analysis.levels import Knee
from tlbcost.calibration.analysis.quantities import Analysis
from tlbcost.calibration.measurement import BOUND_S, CpuGoneError, measure
from tlbcost.calibration.records import Cost, Extent
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import SAMPLES, Table
from tlbcost.common.units import Interval

BASE, HUGE = 4096, 2 << 20


def quietly(sentence: str) -> None:
    """Nothing is to be said where nothing disturbs."""
    raise AssertionError(sentence)


@dataclass
class Machine:
    """A probe and an analysis that answer as they are set to, and a clock that the runs move."""

    knees: tuple[Knee, ...] = ()
    header: dict[str, str] = field(
        default_factory=lambda: {"base_page_bytes": str(BASE), "cpu": "5"}
    )
    uncertain_runs: int = 0
    costs: tuple[Cost, ...] = ()
    now: float = 0.0
    share: float = 1.0
    runs: list[tuple[list[str], float]] = field(default_factory=list)
    analysed: list[tuple[int, int]] = field(default_factory=list)

    # Headers of the first runs, in turn; then `header` alone.
    disturbed: list[dict[str, str]] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)

    def run(
        self, options: Sequence[str], limit_s: float, progress: Callable[[int], None] | None
    ) -> Table:
        if progress:
            progress(0)
            progress(100)
        self.runs.append((list(options), limit_s))
        self.now += self.share * limit_s
        header = self.header | (self.disturbed.pop(0) if self.disturbed else {})
        return Table(str(len(self.runs)), header, SAMPLES.columns, (), True)

    def analyse(self, first: Sequence[Table], second: Sequence[Table] = ()) -> Analysis:
        self.analysed.append((len(first), len(second)))
        self.kept = [int(table.name) for table in first]
        unsettled = ("a cost varies",) if len(self.analysed) <= self.uncertain_runs else ()
        return Analysis(self.costs, (), (), unsettled)

    def option(self, run: int, name: str) -> list[str]:
        words = self.runs[run][0]
        return [words[i + 1] for i, word in enumerate(words) if word == name]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(measurement, "run_calibrator", machine.run)
    monkeypatch.setattr(measurement.time, "monotonic", lambda: machine.now)
    monkeypatch.setattr(quantities, "candidates", lambda _: machine.knees)
    monkeypatch.setattr(quantities, "analyse", machine.analyse)
    return machine


def knee(size: int, entries: float, probe: str = "tlb", access: str = "serial") -> Knee:
    interval = Interval(entries, entries, entries)
    return Knee("dtlb_entries", size, probe, "spread", access, interval)


def test_a_quick_one_confirms_each_knee_with_another_seed(machine: Machine) -> None:
    machine.knees = (knee(BASE, 96), knee(BASE, 2000))
    result = measure("quick", (), quietly, None)
    assert [machine.option(i, "--measure") for i in range(3)] == [
        ["cycles,faults,near,middle,far,dense"],
        ["loads,stream,memory,residency"],
        ["faults,near"],
    ]
    assert len({machine.option(i, "--seed")[0] for i in range(3)}) == 3
    assert [machine.option(i, "--cpu") for i in range(3)] == [[], ["5"], ["5"]]
    lines = [int(word) for word in machine.option(2, "--lines")[0].split(",")]
    assert lines == sorted(set(lines))
    assert 8192 in lines
    for entries in (96, 2000):
        assert entries in lines
        assert sum(0.8 * entries < n < entries for n in lines) >= 3
        assert sum(entries < n < 1.25 * entries for n in lines) >= 3
    assert len(result.samples) == 3
    assert result.notes == ()


@pytest.mark.parametrize("covers", [None, BASE, HUGE])
def test_a_quick_one_measures_larger_pages_where_the_tlb_holds_them(
    machine: Machine, covers: int | None
) -> None:
    interval = None if covers is None else Interval(covers, covers, covers)
    machine.costs = (Cost("tlb_entry_bytes", HUGE, None, None, interval, 0),)
    measure("quick", (), quietly, None)
    groups = [machine.option(i, "--measure") for i in range(len(machine.runs))]
    assert (["large"] in groups) == (covers != BASE)
    if covers == HUGE:
        assert machine.option(groups.index(["large"]), "--page-size") == [str(HUGE)]
    assert machine.now <= BOUND_S["quick"]


def test_each_kind_of_knee_is_confirmed_by_its_own_group(machine: Machine) -> None:
    machine.knees = (
        knee(BASE, 96), knee(HUGE, 32), knee(BASE, 256, "code"), knee(BASE, 16, "tlb", "store")
    )  # fmt: skip
    measure("full", (), quietly, None)
    confirming = [i for i in range(len(machine.runs)) if machine.option(i, "--lines")]
    assert [
        (*machine.option(i, "--measure"), *machine.option(i, "--page-size")) for i in confirming
    ] == [("faults,near", "4096"), ("large", str(HUGE)), ("code", "4096"), ("stores", "4096")]


def test_chosen_page_sizes_limit_the_first_pass(machine: Machine) -> None:
    measure("quick", (65536,), quietly, None)
    assert machine.option(0, "--page-size") == ["4096", "65536"]


@pytest.mark.parametrize("extent", ["quick", "full"])
def test_under_noise_it_goes_on_within_the_bound_and_says_so(
    machine: Machine, extent: Extent
) -> None:
    machine.knees = (knee(BASE, 96),)
    machine.uncertain_runs, machine.share = 1000, 0.6
    result = measure(extent, (), quietly, None)
    assert machine.now <= BOUND_S[extent]
    assert machine.now > 0.6 * BOUND_S[extent]
    assert "s longer than usual, because a cost varies" in result.notes[0]
    assert "uncertain still" in result.notes[1]
    first, second = machine.analysed[-1]
    assert first > machine.analysed[0][0]
    assert second > 1


def test_a_probe_that_needs_all_its_time_leaves_none_to_repeat(machine: Machine) -> None:
    machine.knees, machine.uncertain_runs = (knee(BASE, 96),), 1000
    result = measure("quick", (), quietly, None)
    assert machine.now <= BOUND_S["quick"]
    assert result.notes == ("uncertain still when the time was over: a cost varies",)


def test_when_certain_it_stops(machine: Machine) -> None:
    machine.knees = (knee(BASE, 96),)
    machine.uncertain_runs = 1
    result = measure("full", (), quietly, None)
    assert len(machine.analysed) == 2
    assert len(result.notes) == 1
    assert "longer than usual" in result.notes[0]


def test_a_cpu_that_went_offline_is_distinguished_from_other_failures(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.knees = (knee(BASE, 96),)
    samples = machine.run

    def fail_second(options: Sequence[str], limit_s: float, progress: None) -> Table:
        if machine.runs:
            raise TlbcostError("cannot stay on one CPU")
        return samples(options, limit_s, progress)

    monkeypatch.setattr(measurement, "run_calibrator", fail_second)
    monkeypatch.setattr(measurement, "is_online", lambda cpu: cpu != "5")
    with pytest.raises(CpuGoneError, match=r"^5$"):
        measure("quick", (), quietly, None)
    machine.runs.clear()
    monkeypatch.setattr(measurement, "is_online", lambda _: True)
    with pytest.raises(TlbcostError, match="stay on one CPU"):
        measure("quick", (), quietly, None)


def test_a_cpu_that_goes_offline_under_the_probe_ends_the_measurement(machine: Machine) -> None:
    machine.header["moved_cpu"] = "it went offline"
    with pytest.raises(CpuGoneError, match=r"^5$"):
        measure("quick", (), quietly, None)
    assert len(machine.runs) == 1


def test_progress_never_goes_back(machine: Machine) -> None:
    machine.knees = (knee(BASE, 96), knee(HUGE, 32))
    percents: list[int] = []
    measure("full", (), quietly, percents.append)
    assert percents == sorted(percents)
    assert percents[-1] == 100


LOADED = {"measured_ns": "1000", "waited_ns": "730", "stolen_ns": "0"}
QUIET = {"measured_ns": "1000", "waited_ns": "9", "stolen_ns": "NA"}


@pytest.mark.parametrize("comes", [True, False])
def test_what_was_disturbed_is_measured_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, comes: bool
) -> None:
    waited: list[float] = []

    def wait(most_s: float, announce: object) -> bool:  # noqa: ARG001
        waited.append(most_s)
        return comes

    monkeypatch.setattr(measurement, "wait_for_quiet", wait)
    machine.disturbed = [LOADED, QUIET, QUIET if comes else LOADED]
    said: list[str] = []
    result = measure("quick", (), said.append, None, 20)
    assert waited == [20]
    assert [machine.option(i, "--measure")[0].partition(",")[0] for i in range(3)] == [
        "cycles", "loads", "cycles"
    ]  # fmt: skip
    # What was disturbed is of no use where it could be measured in quiet, and better than nothing.
    assert machine.kept == ([2, 3] if comes else [1, 2, 3])
    assert bool(result.poor_because) is not comes
    assert said == [
        "the calibrator waited for a CPU 37 % of the time: measuring again what was disturbed, "
        "12 s at most"
    ]
    assert machine.now <= 2 * BOUND_S["quick"]


def test_without_patience_nothing_is_repeated(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "wait_for_quiet", None)
    machine.disturbed = [LOADED, LOADED]
    result = measure("quick", (), quietly, None)
    assert len(machine.runs) == 2
    assert result.poor_because[0] == "the calibrator waited for a CPU 73 % of the time"


def test_figures_that_contradict_each_other_are_measured_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "wait_for_quiet", lambda *_: True)
    far = Interval(344, 340, 350)
    near = Interval(149, 148, 150)
    machine.costs = (
        Cost("load_ns", None, "serial", 4194304, far, 3),
        Cost("load_ns", None, "serial", None, near, 3),
    )
    said: list[str] = []
    result = measure("quick", (), said.append, None, 20)
    # All of it: nothing shows which of the two is wrong.
    assert machine.kept == [3, 4]
    assert "a load from memory takes 149 ns, but from a footprint of 256 MiB 344 ns" in said[0]
    assert len(result.poor_because) == 1
