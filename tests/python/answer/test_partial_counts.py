# SPDX-License-Identifier: GPL-2.0-or-later
"""What is answered where a file lacks some counts, or is an Arm server's?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest
from builders.counted import CALIBRATION, SKL, ZEN4, counted, imported
from builders.report import json_of
from builders.tree import GOLDEN, fails, there
from tlbcost.answer.caveats.rules import caveats
from tlbcost.answer.record import Estimate
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.counters.count_tool import formula_values, partial_sums
from tlbcost.counters.importing.file import import_files, import_text
from tlbcost.model.gain import Witness
from tlbcost.processors.events import Pmu, all_pmus, evaluate, load_pmu, names

ZEN = "amd64_fam19h_zen4"
WALKS = "perf stat -o counts.txt -e cycles:u,instructions:u,r1001008:u,r1001049:u,r1001085:u"


def without(values: Mapping[str, float], *left_out: str) -> dict[str, float]:
    return {name: value for name, value in values.items() if not name.startswith(left_out)}


def caveat(of: Estimate, code: str) -> str:
    return next(f"{each.sentence} {each.remedy}" for each in caveats(of) if each.code == code)


def witness_of(of: Estimate) -> Witness:
    return there(of.counted).witness


def refused(values: Mapping[str, float], pmu: str = "skl") -> TlbcostError:
    with fails(r"^no estimate: ", CANNOT_MEASURE) as error:
        imported(counted(values), pmu)
    return error.value


def test_walk_cycles_of_loads_and_stores_are_an_answer_without_those_of_code() -> None:
    part = imported(counted(without(SKL, "walk_active_cycles.fetch")))
    whole = imported(counted(SKL))
    assert witness_of(part).missing == ("walk_active_cycles.fetch",)
    assert witness_of(part).way == "walk_cycles"
    # What huge pages for data save is the same; the bound has no code in it.
    assert part.gain.expected_fraction == whole.gain.expected_fraction
    assert part.gain.bound_fraction.value == pytest.approx(0.9 * 6e8 / 3e9)
    assert part.gain.code_fraction is None
    words = caveat(part, "T55")
    assert "lack walk_active_cycles.fetch: the shares are those of loads and stores" in words
    assert "'tlbcost events --perf-stat --pmu skl'" in words
    assert json.loads(json_of(part))["counters"]["missing_events"] == ["walk_active_cycles.fetch"]
    assert json.loads(json_of(whole))["counters"]["missing_events"] == []


def test_the_file_of_perf_that_lacks_the_events_of_code() -> None:
    seen, pmu, _ = import_files([GOLDEN / "counts-walks.csv"], "skl")
    answer = imported(seen, pmu.key)
    # No times are in perf's CSV: the shares are of the cycles.
    assert answer.gain.bound_fraction.value == pytest.approx(
        (7344597760 + 1224099627) / 61204981337
    )
    assert "T55" in [each.code for each in caveats(answer)]


def test_loads_alone_are_a_part_of_the_answer() -> None:
    part = imported(counted(without(SKL, "walk_active_cycles.s", "walk_active_cycles.f")))
    assert witness_of(part).total.value == pytest.approx(5e8 / 3e9)
    assert "leave out part of the loads or stores, so the gain may be larger" in caveat(part, "T55")


@pytest.mark.parametrize(
    ("left_out", "words"),
    [(("walk_active_cycles.load", "walks_completed.load"), "walk_active_cycles.load missing"),
     (("walk",), "neither the cycles in page walks nor their number: walk_active_cycles.fetch"),
     (("cycles", "walks", "walk_active_cycles.load"), "cycles, ")],
)  # fmt: skip
def test_without_loads_or_cycles_there_is_none(left_out: tuple[str, ...], words: str) -> None:
    error = refused(without(SKL, *left_out))
    assert words in str(error)
    assert error.hint == f"count what is missing: {WALKS} -- COMMAND"
    nothing = refused({"cycles": 1e9, "instructions": 1e9}, "arm_ac53")
    assert nothing.hint == "'tlbcost doctor' shows what can be counted here"


def test_all_walks_at_their_cost_come_before_a_part_of_their_cycles() -> None:
    part = without(SKL, "walk_active_cycles.s", "walk_active_cycles.f")
    answer = imported(counted(part), walk_cycles=30.0)
    assert witness_of(answer).way == "walks_times_cost"
    assert witness_of(answer).missing == ()
    # The cycles in walks of all loads and stores say more than a cost.
    part = without(SKL, "walk_active_cycles.f")
    answer = imported(counted(part), walk_cycles=30.0)
    assert witness_of(answer).way == "walk_cycles"


def test_generic_events_have_walks_and_the_file_is_what_lacks_their_cycles() -> None:
    seen, pmu, _ = import_files([GOLDEN / "counts-generic.txt"], "skylake")
    with pytest.raises(TlbcostError) as error:
        imported(seen, pmu.key)
    assert str(error.value) == (
        "no estimate: the counts have page walks but not the cycles in them, and what a walk costs "
        "is not known"
    )
    assert error.value.hint is not None
    assert "--walk-cycles N, or count what is missing: " + WALKS in error.value.hint
    answer = imported(seen, pmu.key, walk_cycles=40.0)
    assert witness_of(answer).missing == ("walks_completed.store",)
    assert witness_of(answer).total.value == pytest.approx(40 * (211874062 + 9120455) / 61204981337)
    assert "lack walks_completed.store: " in caveat(answer, "T55")
    assert "'tlbcost events --perf-stat --pmu skl'" in caveat(answer, "T25")


def test_a_cpu_that_counts_no_cycles_of_walks_is_what_lacks_them() -> None:
    error = refused(ZEN4, ZEN)
    assert "AMD Zen 4 counts page walks but not the cycles in them" in str(error)
    assert "perf stat" not in (error.hint or "")
    answer = imported(counted(without(ZEN4, "stlb_misses.f")), ZEN, walk_cycles=40.0)
    assert witness_of(answer).missing == ("stlb_misses.fetch",)


@pytest.mark.parametrize("pmu", all_pmus(), ids=lambda pmu: pmu.key)
def test_a_part_is_a_lower_bound_on_every_cpu(pmu: Pmu) -> None:
    for key in {"share", "pending_share", "walks", "data_walks"} & pmu.formulas.keys():
        formula = pmu.formulas[key]
        summed = sorted(names(formula) - {"cycles"})
        values = {"cycles": 1e6, **{name: 1e3 * (i + 1) for i, name in enumerate(summed)}}
        whole = evaluate(formula, values)
        assert whole is not None
        for name in summed:
            part = counted({each: value for each, value in values.items() if each != name})
            found = partial_sums({key: formula}, part).get(key)
            if found is not None:
                assert found.missing == (name,)
                assert 0 <= found.value.value < whole
    assert partial_sums(pmu.formulas, counted({"cycles": 1e6})) == {}


def test_nothing_is_partial_where_all_is_counted() -> None:
    seen = counted(SKL)
    assert partial_sums(load_pmu("skl").formulas, seen) == {}
    assert formula_values(load_pmu("skl").formulas, seen)["share"] is not None


CYCLES, ARM_WALKS, CODE_WALKS = 84_236_118_204, 868_803_506, 402_377
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
    seen, pmu, _ = import_files([GOLDEN / f"counts-{server}.txt"], server)
    assert pmu.key == FILES[server]
    return imported(seen, pmu.key, **changes)


@pytest.mark.parametrize("server", SERVERS)
def test_walks_times_what_one_is_said_to_cost(server: str) -> None:
    answer = estimate(server, walk_cycles=40.0)
    seen = witness_of(answer)
    assert seen.way == "walks_times_cost"
    assert seen.total.value == pytest.approx(40 * (ARM_WALKS + CODE_WALKS) / CYCLES)
    assert seen.data.value == pytest.approx(40 * ARM_WALKS / CYCLES)
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
    whole, part = witness_of(answer), witness_of(walks_alone)
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
    seen = witness_of(answer)
    assert seen.way == "pending_cycles"
    assert seen.total.value == pytest.approx(2.05e9 / 10e9)
    assert there(seen.exposed).value == pytest.approx(1.02e9 / 10e9)
    assert "number of page walkers (not known)" in caveat(answer, "T26")


@pytest.mark.parametrize("pmu", ["arm_ac53", "arm_ac57", "arm_ac72"])
def test_first_level_misses_alone_are_no_walks(pmu: str) -> None:
    first = counted({"cycles": 10e9, "instructions": 8e9, "dtlb_misses": 5e7, "itlb_misses": 1e5})
    with pytest.raises(TlbcostError, match="counts first-level misses alone, hits of the") as error:
        imported(first, pmu, walk_cycles=40.0)
    assert error.value.exit_code == CANNOT_MEASURE
    assert "simulates both levels" in (error.value.hint or "")
