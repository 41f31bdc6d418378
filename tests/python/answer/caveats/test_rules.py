# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from builders.answer import (
    BASE,
    MACHINE,
    RUN,
    altered,
    estimated,
    killed,
    outcomes,
    overlapped,
    process,
    rebuilt,
    simulated,
    stalls,
)
from builders.counted import SKL, ZEN4, both, counted, counted_estimate, evidence, imported
from builders.tree import TREE, there
from tlbcost.answer.caveats.rules import SEVERITIES, caveats
from tlbcost.answer.estimate import conclude
from tlbcost.answer.record import Estimate
from tlbcost.calibration.records import Obtained
from tlbcost.common.units import Interval
from tlbcost.measured.record import MeasuredGain
from tlbcost.processors.events import load_pmu
from tlbcost.processors.published import Geometry, LevelSource
from tlbcost.simulator.counts import Touched
from tlbcost.simulator.run import Simulation
from tlbcost.system.huge_pages import HugeSettings
from tlbcost.system.machine import Machine

DOCUMENT = TREE / "doc" / "caveats.md"
CODES = [code for each in SEVERITIES.values() for code in each]

Change = Callable[[Estimate], Estimate]


def geometry_of(c: Estimate) -> Geometry:
    return there(c.simulated).geometry


def _with_source(source: LevelSource) -> Change:
    def change(c: Estimate) -> Estimate:
        geometry = geometry_of(c)
        sources = {**geometry.sources, ("stlb", BASE): source}
        return simulated(c, geometry=replace(geometry, sources=sources))

    return change


def _with_run(**values: int) -> Change:
    return lambda c: rebuilt(altered(c, runs=(replace(RUN, **values),) * 3))


def _with_surroundings(**values: object) -> Change:
    return lambda c: altered(
        c,
        surroundings=replace(c.given.surroundings, **values),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("defrag", "words", "compacts"),
    [("always", "page faults wait while", True), ("defer", "huge pages may come late", False),
     ("defer+madvise", "memory that asks wait", True), ("madvise", "memory that asks wait", True),
     ("never", "without free huge pages there are none", False)],
)  # fmt: skip
def test_where_no_huge_page_is_free_defrag_decides(defrag: str, words: str, compacts: bool) -> None:
    settings = HugeSettings(2 << 20, "madvise", defrag=defrag)
    around = _with_surroundings(
        free_huge_pages=0, settings=settings, stalls=stalls(base_ns=1, huge_ns=40_000_000)
    )
    found = {each.code: each for each in caveats(around(estimated()))}
    assert "0 are free in one piece; for the others: " in found["T57"].sentence
    assert words in found["T57"].sentence
    assert ("in the background" in str(found["T58"])) == compacts


def test_the_programs_own_faults_are_said_where_they_were_timed() -> None:
    slow = stalls(base_ns=1, huge_ns=40_000_000)
    assert slow.huge is not None
    fast = msgspec.structs.replace(
        slow, base_faults=slow.base, huge_faults=msgspec.structs.replace(slow.huge, worst_ns=100)
    )
    own = msgspec.structs.replace(fast, huge_faults=slow.huge)
    sentences = [
        [each.sentence for each in caveats(around(estimated())) if each.code == "T58"]
        for around in (_with_surroundings(stalls=each) for each in (slow, own, fast))
    ]
    assert [each.partition(" took up to ")[0] for found in sentences for each in found] == [
        "The first touch of a huge page",
        "A page fault of the program on huge pages",
    ]


def test_a_walk_that_was_not_cheaper_has_no_figures() -> None:
    found = _with_entry_bytes(4096)(estimated())
    [cheaper] = [each.sentence for each in caveats(found) if each.code == "T21"]
    [other] = [
        each.sentence
        for each in caveats(
            replace(found, base_costs=found.huge_costs, huge_costs=found.base_costs)
        )
        if each.code == "T21"
    ]
    assert " ns)" in cheaper
    assert " ns)" not in other


def _counted(_: Estimate) -> Estimate:
    return counted_estimate()


def _with_files(pages: int) -> Change:
    return lambda c: rebuilt(
        simulated(c, processes=(replace(process(), touched=Touched(65536, 130, pages)),))
    )


def _with_run_times(second_ns: int) -> Change:
    return lambda c: rebuilt(altered(c, runs=(RUN, replace(RUN, user_ns=second_ns))))


def _with_entry_bytes(size: int) -> Change:
    def change(c: Estimate) -> Estimate:
        geometry = geometry_of(c)
        huge = replace(geometry.huge, entry_bytes=size)
        return simulated(c, geometry=replace(geometry, huge=huge))

    return change


def _of_machine(c: Estimate, machine: Machine) -> Obtained:
    """The calibration as if it were of this machine."""
    return Obtained(replace(there(c.given.calibrated).calibration, machine=machine), "from a file")


def _with_left_behind(processes: int) -> Change:
    ran = Simulation((), outcomes([RUN])[0], left_behind=processes)
    return lambda c: altered(c, simulation=ran)


def _with_measured(user: float) -> Change:
    """Measured, to within half a point; the model of the sample expects something else."""
    share = Interval(user, user - 0.005, user + 0.005)
    none = Interval(0, 0, 0)
    gain = MeasuredGain("runs in turns", share, share, none, none, 3, {}, 1.0, 1.0)
    return lambda c: altered(c, measured=gain)


def _with_formulas(name: str) -> Change:
    """A CPU that has this formula alone, of the same value as the share of the sample."""

    def change(_: Estimate) -> Estimate:
        pmu = load_pmu("skl")
        alone = replace(pmu, formulas={name: pmu.formulas["share"]})
        return conclude(replace(evidence(counted(SKL)), pmu=alone))

    return change


def _without_notes(_: Estimate) -> Estimate:
    return conclude(replace(evidence(counted(SKL)), pmu=replace(load_pmu("skl"), notes=())))


def _graded(c: Estimate, *reasons: str) -> Estimate:
    assert c.given.calibrated is not None
    obtained = c.given.calibrated
    poor = replace(obtained.calibration, grade_reasons=reasons)
    return altered(c, calibrated=replace(obtained, calibration=poor))


# What brings each caveat about, and something near it that must not.
CASES: dict[str, tuple[Change, Change]] = {
    "T01": (lambda c: altered(c, machine=replace(MACHINE, hypervisor="kvm")), lambda c: c),
    "T02": (
        _with_run(wall_ns=40_000_000, user_ns=39_000_000, system_ns=0),
        _with_run(wall_ns=60_000_000, user_ns=59_000_000, system_ns=0),
    ),
    "T03": (_with_run_times(1_200_000_000), _with_run_times(950_000_000)),
    "T04": (
        lambda c: rebuilt(simulated(c, processes=(process(), killed()))),
        lambda c: rebuilt(simulated(c, processes=(process(), process(pid=7)))),
    ),
    "T05": (
        lambda c: simulated(c, processes=(replace(process(), threads=4),)),
        lambda c: simulated(c, processes=(process(), process(pid=7))),
    ),
    "T06": (
        _with_source(LevelSource("assumed", "assumed (1536 entries): not measured")),
        _with_source(LevelSource("published", "published for Some Core", confirmed=True)),
    ),
    "T07": (
        lambda c: altered(c, huge_costs=replace(c.huge_costs, walk_serial_ns=None)),
        lambda c: altered(c, huge_costs=replace(c.huge_costs, walk_overlapped_ns=None)),
    ),
    "T08": (
        lambda c: rebuilt(simulated(c, processes=(process(10**9),))),
        lambda c: rebuilt(simulated(c, processes=(process(10**6),))),
    ),
    "T09": (lambda c: altered(c, run_notes=("not cached",)), lambda c: c),
    "T10": (_with_run(system_ns=250_000_000), _with_run(system_ns=150_000_000)),
    "T11": (
        lambda c: altered(c, machine=replace(MACHINE, thp_mode="always")),
        lambda c: altered(c, machine=replace(MACHINE, thp_mode="never")),
    ),
    "T12": (_with_surroundings(has_pmu=True), _with_surroundings(has_pmu=False)),
    "T13": (
        _with_surroundings(glibc_tunables="glibc.malloc.hugetlb=1"),
        _with_surroundings(glibc_tunables="glibc.malloc.check=1:glibc.malloc.hugetlb=0"),
    ),
    "T14": (
        lambda c: simulated(c, code=1),
        lambda c: simulated(altered(c, codes=(1, 1, 1)), code=1),
    ),
    "T15": (_with_files(60_000), _with_files(2000)),
    "T16": (
        lambda c: rebuilt(altered(c, huge_costs=replace(c.huge_costs, fault_ns=None))),
        lambda c: c,
    ),
    "T17": (lambda c: simulated(altered(c, codes=(3, 3, 3)), code=3), lambda c: c),
    "T18": (
        lambda c: altered(c, runs=(RUN,), codes=(0,)),
        lambda c: altered(c, runs=(RUN, RUN), codes=(0, 0)),
    ),
    "T19": (
        lambda c: altered(c, calibrated=_of_machine(c, replace(MACHINE, cpu_name="Another"))),
        lambda c: c,
    ),
    "T20": (
        lambda c: altered(c, base_costs=replace(c.base_costs, walk_overlapped_ns=None)),
        lambda c: altered(c, huge_costs=replace(c.huge_costs, walk_overlapped_ns=None)),
    ),
    "T21": (
        _with_entry_bytes(4096),
        # Huge pages in pieces, and hardly a walk that they could make cheaper.
        lambda c: _with_entry_bytes(4096)(altered(c, gain=estimated(0).gain)),
    ),
    "T22": (
        lambda c: altered(c, footprint=replace(c.footprint, largest_anonymous_pages=200_000)),
        # as many faults as pages, and too few pages to tell
        lambda c: altered(c, footprint=replace(c.footprint, largest_anonymous_pages=70_000)),
    ),
    "T23": (lambda _: conclude(evidence(counted(SKL, notes=("a", "b", "c")))), _counted),
    "T24": (lambda _: counted_estimate({**SKL, "stlb_hits.load": None}), _counted),
    "T25": (lambda _: counted_estimate(ZEN4, "amd64_fam19h_zen4"), _counted),
    "T26": (_with_formulas("pending_share"), _counted),
    "T27": (_with_formulas("exposed_share"), _counted),
    "T28": (lambda _: counted_estimate({**SKL, "walk_active_cycles.store": 2.6e9}), _counted),
    "T29": (_counted, lambda _: both()),
    "T30": (_counted, lambda _: both()),
    "T31": (_counted, _without_notes),
    "T32": (lambda _: counted_estimate(machine=replace(MACHINE, hypervisor="kvm")), _counted),
    "T33": (lambda _: imported(counted(SKL)), _counted),
    "T34": (lambda _: both(5_000_000), lambda _: both(10_000_000)),
    "T55": (
        lambda _: imported(
            counted({k: v for k, v in SKL.items() if k != "walk_active_cycles.fetch"})
        ),
        lambda _: imported(counted(SKL)),
    ),
    "T35": (lambda c: simulated(c, no_overlap="3 of its windows could be modelled"), overlapped),
    "T40": (_with_run(waited_ns=200_000_000), _with_run(waited_ns=50_000_000)),
    "T41": (
        _with_run(wall_ns=1_200_000_000, waited_ns=0),
        _with_run(wall_ns=1_200_000_000, waited_ns=150_000_000),
    ),
    "T42": (_with_left_behind(1), _with_left_behind(0)),
    "T56": (_with_measured(0.9), _with_measured(0.3)),
    "T45": (lambda c: _graded(c, "steal 12 %"), _graded),
    "T58": (
        _with_surroundings(stalls=stalls(base_ns=999_999, huge_ns=10_000_000)),
        _with_surroundings(stalls=stalls(base_ns=1_000_001, huge_ns=10_000_000)),
    ),
    "T57": (_with_surroundings(free_huge_pages=127), _with_surroundings(free_huge_pages=128)),
}


def test_a_poor_calibration_comes_first() -> None:
    poor = _graded(CASES["T17"][0](estimated()), "steal 12 %", "another reason")
    first = caveats(poor)[0]
    assert first.code == "T45"
    assert first.sentence.startswith("Poor calibration, so every")
    assert first.sentence.endswith(": steal 12 %; 1 more.")
    assert first.remedy.startswith("Repeat it when the machine is quiet: tlbcost calibrate")


def test_costs_that_the_overlap_model_does_not_use_are_left_out() -> None:
    for code in ("T07", "T20"):
        unpriced = CASES[code][0](estimated())
        assert code in _codes(unpriced)
        assert code not in _codes(overlapped(unpriced))
    capped = overlapped(CASES["T08"][0](estimated()))
    caveat = next(each for each in caveats(capped) if each.code == "T08")
    assert "lower half" not in caveat.remedy


def _codes(of: Estimate) -> list[str]:
    return [caveat.code for caveat in caveats(of)]


def test_the_sample_has_none() -> None:
    assert _codes(estimated()) == []


def test_every_rule_has_a_case() -> None:
    assert sorted(CASES) == sorted(CODES)


@pytest.mark.parametrize("code", CODES)
def test_triggers(code: str) -> None:
    changed = CASES[code][0](estimated())
    assert code in _codes(changed)
    caveat = next(each for each in caveats(changed) if each.code == code)
    for text in (caveat.sentence, caveat.remedy):
        assert text.endswith(".")
        assert text.startswith("tlbcost ") or not text[0].islower()


@pytest.mark.parametrize("code", CODES)
def test_does_not_trigger(code: str) -> None:
    assert code not in _codes(CASES[code][1](estimated()))


def test_every_caveat_has_its_paragraph_and_no_other() -> None:
    headings = re.findall(r"^## (T\d+)", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == sorted(CODES)


def test_every_caveat_has_one_severity() -> None:
    assert len(set(CODES)) == len(CODES)


def test_a_process_whose_pages_were_not_noted_is_reported() -> None:
    untold = replace(process(pid=7), touched=None)
    changed = rebuilt(simulated(estimated(), processes=(process(), untold)))
    caveat = next(each for each in caveats(changed) if each.code == "T04")
    assert "missing from the footprint" in caveat.sentence
    assert changed.footprint == estimated().footprint


def test_published_levels_are_reported_unless_confirmed() -> None:
    changed = _with_source(LevelSource("published", "published for X"))(estimated())
    caveat = next(each for each in caveats(changed) if each.code == "T06")
    assert "stlb 4 KiB published" in caveat.sentence


def test_many_notes_are_cut_short() -> None:
    c = estimated()
    noted = altered(c, run_notes=("a", "b", "c", "d"))
    caveat = next(each for each in caveats(noted) if each.code == "T09")
    assert caveat.sentence == "About the calibration: a; b; 2 more."
