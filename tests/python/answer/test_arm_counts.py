# SPDX-License-Identifier: GPL-2.0-or-later
"""What follows from perf stat's files of Arm servers, and is it said which level was counted?

tests/golden/counts-graviton* are made up: PMUv3's events by the names that perf prints for them.
"""

from __future__ import annotations

import json
import re

import pytest
from builders.counted import CALIBRATION, counted, imported
from builders.report import json_of
from builders.tree import GOLDEN
from tlbcost.answer.caveats.rules import caveats
from tlbcost.answer.record import CountedPart, Estimate
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.counters.importing.file import import_files, import_text
from tlbcost.processors.event_tables import load_pmu

CYCLES, WALKS, CODE_WALKS = 84_236_118_204, 868_803_506, 402_377
HITS = 1_921_774_031 - 871_250_119
FILES = {"graviton3": "arm_v1", "graviton4": "arm_v2"}
SERVERS = sorted(FILES)
# What Neoverse N3, V3 and MONAKA count: the walks in progress, added up over all cycles.
WITH_CYCLES = {
    "cycles": 10e9, "instructions": 8e9,
    "stlb_misses.data": 50e6, "stlb_misses.fetch": 1e6,
    "walk_pending_cycles.data": 2e9, "walk_pending_cycles.fetch": 5e7,
    "walk_stall_cycles.data": 1e9, "walk_stall_cycles.fetch": 2e7,
}  # fmt: skip


def estimate(server: str, **changes: object) -> Estimate:
    seen, pmu = import_files([GOLDEN / f"counts-{server}.txt"], server)
    assert pmu.key == FILES[server]
    return imported(seen, pmu.key, **changes)


def part_of(answer: Estimate) -> CountedPart:
    assert answer.counted is not None
    return answer.counted


def caveat(of: Estimate, code: str) -> str:
    return next(f"{each.sentence} {each.remedy}" for each in caveats(of) if each.code == code)


@pytest.mark.parametrize("server", SERVERS)
def test_walks_times_what_one_is_said_to_cost(server: str) -> None:
    answer = estimate(server, walk_cycles=40.0)
    seen = part_of(answer).witness
    assert seen.way == "walks_times_cost"
    assert seen.total.value == pytest.approx(40 * (WALKS + CODE_WALKS) / CYCLES)
    assert seen.data.value == pytest.approx(40 * WALKS / CYCLES)
    words = caveat(answer, "T25")
    assert "each of 869 M walks (misses of both levels) is taken to cost 40 cycles" in words
    assert "1.05 G first-level misses that hit the second level are left out" in words
    assert json.loads(json_of(answer))["counters"]["missing_events"] == []


def test_with_a_calibration_each_level_has_its_own_cost() -> None:
    calibrated = Obtained(read_calibration(CALIBRATION), "from a file")
    answer = estimate("graviton4", calibrated=calibrated)
    text = (GOLDEN / "counts-graviton4.txt").read_text(encoding="utf-8")
    without_hits = re.sub(r".* l(1d|2d)_tlb(_refill)?:u.*\n", "", text)
    seen = import_text(without_hits, "file", load_pmu("arm_v2"))
    walks_alone = imported(seen, "arm_v2", calibrated=calibrated)
    whole, part = part_of(answer).witness, part_of(walks_alone).witness
    assert whole.way == part.way == "walks_times_cost"
    clock = CYCLES / 28.841004e9  # cycles per ns
    hits = whole.total.low - part.total.low
    assert hits == pytest.approx(HITS * 0.3 * clock / CYCLES)  # the least cost of a hit, in ns
    words = caveat(answer, "T25")
    assert "869 M walks (misses of both levels) and 1.05 G first-level misses that hit" in words
    assert "are multiplied by their calibrated costs" in words
    assert "(hits of the second level are not known)" in caveat(walks_alone, "T25")


@pytest.mark.parametrize("pmu", ["arm_n3", "arm_v3"])
def test_a_core_that_counts_cycles_of_walks_needs_no_cost(pmu: str) -> None:
    answer = imported(counted(WITH_CYCLES), pmu)
    seen = part_of(answer).witness
    assert seen.way == "pending_cycles"
    assert seen.total.value == pytest.approx(2.05e9 / 10e9)
    assert seen.exposed is not None
    assert seen.exposed.value == pytest.approx(1.02e9 / 10e9)
    assert "number of page walkers (not known)" in caveat(answer, "T26")


@pytest.mark.parametrize("pmu", ["arm_ac53", "arm_ac57", "arm_ac72"])
def test_first_level_misses_alone_are_no_walks(pmu: str) -> None:
    first = counted({"cycles": 10e9, "instructions": 8e9, "dtlb_misses": 5e7, "itlb_misses": 1e5})
    with pytest.raises(TlbcostError, match="counts first-level misses alone, hits of the") as error:
        imported(first, pmu, walk_cycles=40.0)
    assert error.value.exit_code == CANNOT_MEASURE
    assert "simulates both levels" in (error.value.hint or "")
