# SPDX-License-Identifier: GPL-2.0-or-later
"""How do runs, counts, costs and what was measured become an estimate?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from builders.answer import BASE, GEOMETRY, HUGE, RUN, estimated, process, simulated_evidence
from builders.counted import OUTCOME
from builders.report import advised, text_of
from builders.tree import there
from tlbcost.accuracy.record import TrackRecord
from tlbcost.answer.caveats.rules import caveats
from tlbcost.answer.document import estimate_document
from tlbcost.answer.estimate import attributable, conclude
from tlbcost.answer.gains import with_measured
from tlbcost.answer.record import Estimate, Evidence
from tlbcost.common import paths
from tlbcost.common.document import to_json
from tlbcost.common.units import Interval
from tlbcost.measured.method import AS_IT_RUNS
from tlbcost.measured.record import MeasuredGain, OverLimit
from tlbcost.model.gain import MODELS, total_interval
from tlbcost.report.summary import summary
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.memory_tables import (
    ImageAttribution,
    ImageWindows,
    Misses,
    ModelledMisses,
    RegionMisses,
    SidedMisses,
    Window,
)
from tlbcost.simulator.run import Simulation


def test_what_was_obtained_is_put_together() -> None:
    native = [OUTCOME, Outcome(RUN, "", None, None, 11, None)]
    simulation = Simulation((process(),), native[0])
    found = conclude(simulated_evidence(simulation, run_notes=("a note",), native=tuple(native)))
    assert found.given.calibrated is not None
    assert found.base_costs is not None
    assert found.given.codes == (0, 139)
    assert found.given.cost_notes == ("a note",)
    assert found.base_costs.footprint_entries == 65736
    assert there(found.huge_costs).footprint_entries == 129
    # The calibration's own figure at the next footprint is 35 ns.
    assert there(found.base_costs.walk_serial_ns).value == pytest.approx(35, rel=0.01)
    assert there(found.base_costs.fault_ns).value == 520
    assert found.version == paths.version()


def test_splintered_pages_are_priced_at_the_base_pages_counts() -> None:
    geometry = replace(GEOMETRY, huge=replace(GEOMETRY.huge, entry_bytes=BASE))
    found = conclude(simulated_evidence(Simulation((process(),), OUTCOME), geometry=geometry))
    counts = there(found.simulated).counts
    assert counts[HUGE, "load"] == counts[BASE, "load"]
    assert there(found.huge_costs).footprint_entries == there(found.base_costs).footprint_entries


def evidence(windows: int, no_core: str | None = None) -> Evidence:
    """A simulation of one process with this many windows, which save a tenth."""
    modelled = ImageWindows(100, "/app", 10**9, "width=6", (Window(10**5, 1000, 900),) * windows)
    return simulated_evidence(
        Simulation((process(),), OUTCOME, (modelled,) if no_core is None else ()),
        no_core=no_core,
        track_records={model: TRIED for model in MODELS},
    )


TRIED = TrackRecord(True, "2026-01-01T00:00:00Z", 16, 12, 0.0812, 0.264)


def test_the_overlap_model_is_taken_where_it_can_be() -> None:
    found = conclude(replace(evidence(50), track_records={"overlap": TRIED}))
    gain = found.gain
    assert gain.model == "overlap"
    assert gain.expected_fraction == gain.models["overlap"]
    assert gain.expected_fraction.value == pytest.approx(0.1 * 0.9)
    simple = conclude(evidence(50, "no costs of loads")).gain
    assert gain.models["simple"] == simple.expected_fraction
    assert gain.bound_fraction == simple.bound_fraction
    assert simple.models == {"simple": simple.expected_fraction}
    assert found.track_record == TRIED


def test_the_verdict_is_that_of_the_model() -> None:
    nothing = evidence(0)
    assert nothing.simulation is not None
    same = ImageWindows(100, "/app", 10**9, "width=6", (Window(10**5, 1000, 1000),) * 50)
    found = conclude(replace(nothing, simulation=replace(nothing.simulation, windows=(same,))))
    assert found.gain.expected_fraction.value == 0
    assert found.gain.verdict != conclude(nothing).gain.verdict


@pytest.mark.parametrize(
    ("given", "why"),
    [(evidence(3), "3 of its windows"), (evidence(0), "none of its windows"),
     (evidence(0, "no loads"), "no loads")],
)  # fmt: skip
def test_the_simple_model_stands_in_and_says_so(given: Evidence, why: str) -> None:
    found = conclude(replace(given, track_records={"overlap": TRIED}))
    assert found.gain.model == "simple"
    assert found.gain.expected_fraction == found.gain.models["simple"]
    assert "overlap" not in found.gain.models
    (shown,) = [caveat for caveat in caveats(found) if caveat.code == "T35"]
    assert why in shown.sentence
    # How the other model held is not to be quoted.
    assert found.track_record is None


def share(value: float, half: float = 0.005) -> Interval:
    return Interval(value, value - half, value + half)


def measured(user: float, system: float | None, **others: object) -> MeasuredGain:
    total = share(user + (system or 0.0))
    found = MeasuredGain(
        source="runs in turns" if system is not None else "copies", total_fraction=total,
        user_fraction=share(user), system_fraction=None if system is None else share(system),
        null_fraction=share(0), rounds=4, dropped={}, huge_part=0.97, seen_fraction=1.0,
        method=None if system is None else "glibc-thp",
    )  # fmt: skip
    return replace(found, **others)  # type: ignore[arg-type]


def concluded(found: MeasuredGain) -> Estimate:
    modelled = estimated()
    given = replace(modelled.given, measured=found)
    return replace(modelled, given=given, gain=with_measured(modelled.gain, found))


def test_both_parts_and_the_total_of_whole_runs_are_measured() -> None:
    found = concluded(measured(0.10, 0.05))
    assert found.gain.expected_fraction == share(0.10)
    assert found.gain.fault_fraction == share(0.05)
    # Not the sum of two intervals: the total has its own.
    assert total_interval(found.gain) == share(0.15000000000000002)
    assert found.gain.verdict == "worth_trying"


@pytest.mark.parametrize("details", [False, True])
def test_pairs_alone_are_an_answer(details: bool) -> None:
    given = simulated_evidence(Simulation((process(),), OUTCOME), measured=measured(0.10, 0.05))
    why = "valgrind is not installed"
    found = conclude(replace(given, simulation=None, geometry=None, not_simulated=why))
    assert found.backend == "pairs"
    assert found.gain.verdict == "worth_trying"
    # Nothing is known but that translation is a part of the user time.
    assert found.gain.bound_fraction == Interval(
        RUN.user_ns / RUN.cpu_ns, 0, RUN.user_ns / RUN.cpu_ns
    )
    document = estimate_document(found)
    assert document.simulation is document.attribution is document.counters is None
    text = text_of(found, details=details)
    assert "Its TLB misses are not known: valgrind is not installed." in text
    assert "Upper bound" not in text
    assert "modelled" not in text.split("Caveats:")[0]


def test_the_model_is_still_there() -> None:
    modelled, found = estimated(), concluded(measured(0.10, 0.05))
    assert there(found.simulated).gain == there(modelled.simulated).gain
    document = estimate_document(found)
    assert document.measured is not None
    assert there(document.simulation).expected_fraction == modelled.gain.expected_fraction
    assert document.expected_fraction == share(0.10)


def test_copies_leave_page_faults_to_the_calibration() -> None:
    modelled, found = estimated(), concluded(measured(0.10, None))
    assert found.gain.fault_fraction == modelled.gain.fault_fraction
    assert found.gain.expected_fraction == share(0.10)


@pytest.mark.parametrize(
    ("user", "system", "verdict", "words"),
    [
        (0.10, 0.05, "worth_trying", "saved 15 % of the run time, at least 15 % (measured)."),
        (0.005, 0.0, "not_worth_it", "saved 1.0 % of the run time at most (measured)."),
        (-0.03, 0.0, "not_worth_it", "lose 3.0 % of the run time, at least 2.5 % (measured)."),
        (0.02, 0.0, "not_proven", "(measured); a trial would decide."),
    ],
)
def test_the_verdict_follows_from_it(user: float, system: float, verdict: str, words: str) -> None:
    document = estimate_document(concluded(measured(user, system)))
    assert document.verdict.code == verdict
    assert document.verdict.sentence.endswith(words)


def test_what_is_killed_at_its_memory_limit_on_huge_pages_is_not_worth_it() -> None:
    why = OverLimit("on huge pages by thp app was killed at its memory limit (1 GiB, cgroup)")
    found = simulated_evidence(Simulation((process(10**7),), OUTCOME), not_measured=why)
    document = estimate_document(conclude(found))
    assert document.verdict.code == "not_worth_it"
    assert document.verdict.sentence == f"NOT WORTH IT: {why}; on base pages it was not."
    assert json.loads(to_json(document))["not_measured"] == why


def test_memory_has_a_part_of_a_gain_but_not_of_a_loss() -> None:
    assert attributable(share(0.1)) == share(0.1)
    assert attributable(share(0.001)) == Interval(0.001, 0.0, 0.006)
    assert attributable(share(-0.1)) == Interval(0, 0, 0)


def test_the_summary_says_what_was_measured_and_what_was_expected() -> None:
    verdict, rest = summary(estimate_document(concluded(measured(0.10, 0.05))), 79)
    text = " ".join(" ".join(rest).split())
    assert len(verdict) + len(rest) <= 24
    assert "user time" in text
    assert "kernel time" in text
    assert "the model expected" in text
    assert "measured in 4 pairs of runs, in turns, by glibc-thp; modelled by" in text


def test_who_loses_by_its_huge_pages_is_told_the_switch() -> None:
    there = measured(-0.1, 0.0, method=AS_IT_RUNS)
    text = text_of(concluded(there), details=False)
    assert text.startswith("ALREADY THERE AND LOSING")
    assert "Try     tlbcost run --no-thp -- ./app 'an argument'\n" in text


def test_the_growth_that_was_measured_stands_by_what_to_try() -> None:
    found = advised(("./app",))
    given = replace(found.given, measured=measured(0.1, 0.05, growth_bytes=Interval(5e7, 5e7, 5e7)))
    text = text_of(replace(found, given=given), details=False)
    assert "(47.7 MiB more memory)" in text
    assert "no extra memory" in text_of(found, details=False)


def missing_in(kind: str, walks: int) -> RegionMisses:
    side = SidedMisses(Misses(5, walks))
    waited = ModelledMisses(Misses(0, walks // 10), walks)
    return RegionMisses(
        kind, False, None, None, (), None, 64 << 20, 100, 2, side, side, waited, waited
    )


@pytest.mark.parametrize(
    ("user", "shared", "also", "answered"),
    [(0.0, 900, (), False), (0.10, 900, (), True), (0.0, 900, ("shared memory",), True),
     (0.0, 90, (), True)],
)  # fmt: skip
def test_a_small_gain_is_no_answer_where_the_memory_that_misses_stayed_as_it_was(
    user: float, shared: int, also: tuple[str, ...], answered: bool
) -> None:
    places = (missing_in("heap", 100), missing_in("shared", shared))
    image = ImageAttribution(7, "/opt/app", places, (), (), (), 100_000, 65536)
    found = conclude(
        simulated_evidence(
            Simulation((process(),), OUTCOME, attributions=(image,)),
            measured=measured(user, 0.0, also=also),
        )
    )
    assert (found.given.measured is not None) == answered
    if not answered:
        assert found.given.not_measured is not None
        assert "90 % of the page walks are in files and shared memory" in found.given.not_measured
        assert found.gain == there(found.simulated).gain
