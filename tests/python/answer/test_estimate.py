# SPDX-License-Identifier: GPL-2.0-or-later
"""How do runs, counts and costs become an estimate?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.answer import BASE, GEOMETRY, HUGE, RUN, process, simulated_evidence
from builders.tree import GOLDEN
from tlbcost.accuracy.record import TrackRecord
from tlbcost.answer.caveats.rules import caveats
from tlbcost.answer.estimate import conclude
from tlbcost.answer.record import Evidence
from tlbcost.answer.request import AskedModel
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.model.gain import MODELS
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.run import Simulation
from tlbcost.simulator.windows import ImageWindows, Window

CALIBRATION = GOLDEN / "calibration.tsv"


def calibrated() -> Obtained:
    return Obtained(read_calibration(CALIBRATION), "from a test")


def test_what_was_obtained_is_put_together() -> None:
    native = [Outcome(RUN, "", None, 0, None, None), Outcome(RUN, "", None, None, 11, None)]
    simulation = Simulation((process(),), native[0])
    found = conclude(simulated_evidence(simulation, run_notes=("a note",), native=tuple(native)))
    assert found.given.calibrated is not None
    assert found.base_costs is not None
    assert found.huge_costs is not None
    assert found.given.codes == (0, 139)
    assert found.given.cost_notes == ("a note",)
    assert found.base_costs.footprint_entries == 65736
    assert found.huge_costs.footprint_entries == 129
    # The calibration's own figure at the next footprint is 35 ns.
    assert found.base_costs.walk_serial_ns is not None
    assert found.base_costs.walk_serial_ns.value == pytest.approx(35, rel=0.01)
    assert found.base_costs.fault_ns is not None
    assert found.base_costs.fault_ns.value == 520
    assert found.version == paths.version()


def test_splintered_pages_are_priced_at_the_base_pages_counts() -> None:
    geometry = replace(GEOMETRY, huge=replace(GEOMETRY.huge, entry_bytes=BASE))
    native = [Outcome(RUN, "", None, 0, None, None)]
    found = conclude(simulated_evidence(Simulation((process(),), native[0]), geometry=geometry))
    assert found.simulated is not None
    assert found.base_costs is not None
    assert found.huge_costs is not None
    counts = found.simulated.counts
    assert counts[HUGE, "load"] == counts[BASE, "load"]
    assert found.huge_costs.footprint_entries == found.base_costs.footprint_entries


def evidence(model: AskedModel, windows: int, no_core: str | None = None) -> Evidence:
    """A simulation of one process with this many windows, which save a tenth."""
    native = Outcome(RUN, "", None, 0, None, None)
    modelled = ImageWindows(100, "/app", 10**9, "width=6", (Window(10**5, 1000, 900),) * windows)
    return simulated_evidence(
        Simulation((process(),), native, (modelled,) if no_core is None else ()),
        model=model,
        no_core=no_core,
        track_records={model: TRIED for model in MODELS},
    )


TRIED = TrackRecord(True, "2026-01-01T00:00:00Z", 16, 12, 0.0812, 0.264)


def test_the_overlap_model_is_taken_where_it_can_be() -> None:
    found = conclude(replace(evidence("auto", 50), track_records={"overlap": TRIED}))
    gain = found.gain
    assert gain.model == "overlap"
    assert gain.expected_fraction == gain.models["overlap"]
    assert gain.expected_fraction.value == pytest.approx(0.1 * 0.9)
    simple = conclude(replace(evidence("simple", 50), simulation=Simulation(
        (process(),), Outcome(RUN, "", None, 0, None, None)))).gain  # fmt: skip
    assert gain.models["simple"] == simple.expected_fraction
    assert gain.bound_fraction == simple.bound_fraction
    assert simple.models == {"simple": simple.expected_fraction}
    assert found.track_record == TRIED


def test_the_verdict_is_that_of_the_model() -> None:
    nothing = evidence("auto", 0)
    assert nothing.simulation is not None
    same = ImageWindows(100, "/app", 10**9, "width=6", (Window(10**5, 1000, 1000),) * 50)
    found = conclude(replace(nothing, simulation=replace(nothing.simulation, windows=(same,))))
    assert found.gain.expected_fraction.value == 0
    assert found.gain.verdict != conclude(nothing).gain.verdict


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (evidence("auto", 3), "3 of its windows"),
        (evidence("auto", 0), "none of its windows"),
        (evidence("auto", 0, "no loads"), "no loads"),
    ],
)
def test_the_simple_model_stands_in_and_says_so(given: Evidence, why: str) -> None:
    found = conclude(replace(given, track_records={"overlap": TRIED}))
    assert found.gain.model == "simple"
    assert found.gain.expected_fraction == found.gain.models["simple"]
    assert "overlap" not in found.gain.models
    (shown,) = [caveat for caveat in caveats(found) if caveat.code == "T35"]
    assert why in shown.sentence
    # How the other model held is not to be quoted.
    assert found.track_record is None


def test_a_model_that_is_asked_for_is_not_replaced() -> None:
    with pytest.raises(TlbcostError, match="3 of its windows") as error:
        conclude(evidence("overlap", 3))
    assert error.value.exit_code == 4
    assert "--model simple" in str(error.value.hint)
    simple = conclude(evidence("simple", 0, "not asked for"))
    assert "T35" not in [caveat.code for caveat in caveats(simple)]
