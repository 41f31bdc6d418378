# SPDX-License-Identifier: GPL-2.0-or-later
"""What do tables of arms come to, and do intervals hold the truth as often as they say?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from builders.tree import fails, write_table
from tlbcost.common import formats
from tlbcost.common.errors import TOOL_FAILED
from tlbcost.common.formats import TableFormat
from tlbcost.common.units import Interval
from tlbcost.measured.arms import copies_in, measured_in_arms
from tlbcost.measured.record import (
    MeasuredGain,
    decides,
    mean_of_copies,
    mean_of_pairs,
    more_pairs,
    repeated,
    t95,
)

MIB = 1 << 20


def write(folder: Path, kind: TableFormat, rows: list[dict[str, object]]) -> None:
    write_table(folder, kind, rows, absent="NA")


def copy(window: int, result: str = "followed", user_ns: int = 1000) -> dict[str, object]:
    return {"window": window, "result": result, "user_ns": user_ns, "stands_for_ns": user_ns}


def slices(
    window: int, base: int, repeat: int, huge: int, **more: object
) -> list[dict[str, object]]:
    times = {"base": base, "repeat": repeat, "huge": huge}
    return [
        {
            "window": window, "slice": number, "arm": arm, "turn": turn, "outcome": "good",
            "warm_ns": 1, "time_ns": time, "faults": 0, "stops": 1, "anonymous_bytes": 100 * MIB,
            "huge_bytes": 90 * MIB if arm == "huge" else 0, **more,
        }
        for number in range(2)
        for turn, (arm, time) in enumerate(times.items())
    ]  # fmt: skip


def measured(
    folder: Path, copies: list[dict[str, object]], rows: list[dict[str, object]]
) -> object:
    write(folder, formats.COPIES, copies)
    write(folder, formats.SLICES, rows)
    return measured_in_arms([folder], 0.5)


def test_the_mean_is_weighted_by_what_copies_stand_for(tmp_path: Path) -> None:
    copies = [copy(0), copy(1), copy(2), copy(3, user_ns=3000)]
    rows = [row for i in range(3) for row in slices(i, 1000, 1000, 900)]
    found = measured(tmp_path, copies, rows + slices(3, 1000, 1000, 800))
    assert isinstance(found, MeasuredGain)
    # (3 * 10 % + 3 * 20 %) / 6, of a program that is in user mode for half of its CPU time.
    assert found.user_fraction.value == pytest.approx(0.075)
    assert found.total_fraction == found.user_fraction
    assert found.system_fraction is None
    assert found.null_fraction.value == 0
    assert (found.rounds, found.seen_fraction) == (4, 1.0)
    assert found.huge_part == pytest.approx(0.9)


def test_a_busy_instant_is_like_the_copy_before_it(tmp_path: Path) -> None:
    copies = [copy(0), copy(1, "busy", 5000), copy(2), copy(3), copy(4)]
    rows = slices(0, 1000, 1000, 400)
    rows += [row for i in (2, 3, 4) for row in slices(i, 1000, 1000, 1000)]
    found = measured(tmp_path, copies, rows)
    assert isinstance(found, MeasuredGain)
    assert found.user_fraction.value == pytest.approx(0.5 * 0.6 * 6 / 9)


def test_what_was_not_seen_is_counted_and_too_much_of_it_is_no_answer(tmp_path: Path) -> None:
    copies = [copy(i) for i in range(5)]
    rows = [row for i in range(4) for row in slices(i, 1000, 1000, 900)]
    tight = {"window": 4, "slice": 0, "arm": "base", "turn": 0, "outcome": "tight"}
    found = measured(tmp_path, copies, [*rows, tight])
    assert isinstance(found, MeasuredGain)
    assert found.seen_fraction == pytest.approx(0.8)
    assert found.dropped == {"tight": 1}
    copies[4]["user_ns"] = 5000
    assert "stand for 44 %" in str(measured(tmp_path, copies, [*rows, tight]))


@pytest.mark.parametrize(
    ("outcome", "words"),
    [("tight", "too tight"), ("call", "system calls"), ("diverged", "different ways"),
     ("not-huge", "no huge pages"), ("cut", "run ended"), ("new-word", "new-word")],
)  # fmt: skip
def test_no_answer_has_its_reason(tmp_path: Path, outcome: str, words: str) -> None:
    rows = [row for i in range(3) for row in slices(i, 1000, 1000, 900, outcome=outcome)]
    found = measured(tmp_path, [copy(i) for i in range(3)], rows)
    assert str(found).startswith("0 copies could be measured, and 4 are needed: ")
    assert words in str(found)


def test_a_refusal_is_the_reason(tmp_path: Path) -> None:
    found = measured(tmp_path, [copy(i, "refused-seccomp") for i in range(5)], [])
    assert "seccomp filter" in str(found)


def test_a_slice_that_one_arm_did_not_finish_is_left_out(tmp_path: Path) -> None:
    rows = [row for i in range(4) for row in slices(i, 1000, 1000, 900)]
    for row in rows:
        if row["slice"] == 1 and row["arm"] == "huge":
            row.update(outcome="late", time_ns="NA")
    found = measured(tmp_path, [copy(i) for i in range(4)], rows)
    assert isinstance(found, MeasuredGain)
    assert found.user_fraction.value == pytest.approx(0.05)
    assert found.dropped == {"late": 4}


def test_arms_on_the_same_pages_that_differ_widen_the_interval(tmp_path: Path) -> None:
    def width(name: str, repeat: int) -> float:
        rows = [row for i in range(4) for row in slices(i, 1000, repeat, 900)]
        found = measured(tmp_path / name, [copy(i) for i in range(4)], rows)
        assert isinstance(found, MeasuredGain)
        return found.user_fraction.high - found.user_fraction.low

    assert width("busy", 920) > width("quiet", 1000) + 0.04


def test_runs_have_copies_of_their_own(tmp_path: Path) -> None:
    for run in ("a", "b"):
        rows = slices(0, 1000, 1000, 900) + slices(1, 1000, 1000, 900)
        write(tmp_path / run, formats.COPIES, [copy(0), copy(1)])
        write(tmp_path / run, formats.SLICES, rows)
    folders = [tmp_path / "a", tmp_path / "b"]
    found = measured_in_arms(folders, 1.0)
    assert isinstance(found, MeasuredGain)
    assert found.rounds == copies_in(folders) == 4


def test_a_garbled_table_is_named(tmp_path: Path) -> None:
    write(tmp_path, formats.COPIES, [copy(0)])
    (tmp_path / "slices.0.tsv").write_text("nothing of the kind\n", encoding="utf-8")
    with fails(r"slices\.0\.tsv", TOOL_FAILED):
        measured_in_arms([tmp_path], 1.0)


TRIALS = 2000


def test_quantiles_of_students_t() -> None:
    assert t95(1) == 6.314
    assert t95(9) == 1.833
    assert t95(30) == 1.697
    # Tables: 1.671 for 60, 1.658 for 120.
    assert t95(60) == pytest.approx(1.671, abs=0.01)
    assert t95(120) == pytest.approx(1.658, abs=0.01)


def test_another_session_is_part_of_the_interval() -> None:
    found = repeated(Interval(0.05, 0.05, 0.05))
    assert (found.low, found.high) == pytest.approx((0.05 - 0.0247, 0.05 + 0.0247), abs=1e-4)
    # What is uncertain anyway hardly changes.
    wide = repeated(Interval(0.05, -0.15, 0.25))
    assert wide.low == pytest.approx(-0.1515, abs=1e-4)


@pytest.mark.parametrize(("noise", "least"), [(0.01, 0.9), (0.015, 0.88), (0.03, 0.75)])
@pytest.mark.parametrize("pairs", [2, 3, 6, 15])
def test_pairs_hold_the_truth_nine_times_of_ten(pairs: int, noise: float, least: float) -> None:
    """Where pairs differ twice as much as usual, few of them are somewhat too sure."""
    random, truth, inside = np.random.default_rng(pairs), 0.05, 0
    for _ in range(TRIALS):
        found = mean_of_pairs(list(truth + random.normal(0, noise, pairs)))
        inside += found.low <= truth <= found.high
    assert inside / TRIALS >= least


@pytest.mark.parametrize("gain", [0.0, 0.03, 0.12])
def test_pairs_that_end_once_they_decide_hold_the_truth_all_the_same(gain: float) -> None:
    """Pairs end by what they show: that must not make the verdict wrong more often."""
    random, inside, wrong = np.random.default_rng(7), 0, 0
    for _ in range(TRIALS):
        differences = list(random.normal(gain, 0.015, 2))
        while len(differences) < 10 and not decides(mean_of_pairs(differences)):
            differences.append(random.normal(gain, 0.015))
        found = mean_of_pairs(differences)
        inside += found.low <= gain <= found.high
        wrong += decides(found) and (found.low >= 0.02) != (gain >= 0.02)
    assert inside / TRIALS >= 0.86
    assert wrong / TRIALS <= 0.05


def test_how_many_more_pairs_would_decide() -> None:
    assert more_pairs(Interval(0.05, 0.03, 0.07), 3) is None
    # Half as wide takes four times as many.
    assert more_pairs(Interval(0.05, -0.01, 0.11), 3) == 9
    assert more_pairs(Interval(0.02, 0.01, 0.03), 3) == 997


@pytest.mark.parametrize("copies", [4, 8, 20])
@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_copies_hold_the_truth_at_least_so_often(copies: int, spread: float) -> None:
    """Unequal weights, a program whose phases gain differently, and noise."""
    random, truth, inside = np.random.default_rng(copies), 0.05, 0
    for _ in range(TRIALS):
        weights = random.uniform(0.5, 1.5, copies)
        gains = truth + random.normal(0, spread, copies) + random.normal(0, 0.01, copies)
        found = mean_of_copies(list(gains), list(weights), [0.01] * copies)
        inside += found.low <= truth <= found.high
    assert inside / TRIALS >= 0.86


def test_one_copy_is_as_sure_as_its_nulls() -> None:
    found = mean_of_copies([0.1], [1.0], [0.01])
    assert found.value == 0.1
    assert found.high - found.value == pytest.approx(0.06314)
