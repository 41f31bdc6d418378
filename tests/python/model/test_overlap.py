# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the overlap model's gain follow from its windows, and does its interval tell the truth?"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from builders.answer import RUN
from builders.tree import there
from tlbcost.common.units import Interval
from tlbcost.copies.estimator import CopiedRun, CopiesRecord
from tlbcost.model import overlap
from tlbcost.model.gain import verdict
from tlbcost.model.overlap import (
    MODEL_POINTS,
    MODEL_RELATIVE,
    ModelledWindows,
    expected_gain,
    sample_of,
)
from tlbcost.simulator.memory_tables import ImageWindows, Window

BOUND = Interval(0.9, 0.0, 0.9)


def image(
    *windows: tuple[int, int, int], references: int | None = 1_000_000, pid: int = 1
) -> ImageWindows:
    return ImageWindows(pid, "/bin/app", references, "width=6", tuple(Window(*w) for w in windows))


def sample(*images: ImageWindows) -> ModelledWindows:
    return there(sample_of(images))


def saving(*images: ImageWindows) -> Interval:
    return there(sample(*images).saving)


def _copied(windows: int) -> CopiedRun:
    record = CopiesRecord(
        {"followed": windows}, {"enough": windows}, windows, windows, 1000, 2000, 0.01, 1.0, 0
    )
    saving = Interval(0.1, 0.05, 0.15)
    return CopiedRun(record, "core", windows, 10**9, 10**6, saving)


def test_four_windows_of_copies_are_enough() -> None:
    few, enough = overlap.sample_of_copies(_copied(3)), overlap.sample_of_copies(_copied(4))
    assert few is not None
    assert few.saving is None
    assert overlap.shortfall(few) == "3 of its windows could be modelled, and 4 are needed"
    assert there(enough).saving == Interval(0.1, 0.05, 0.15)


def test_windows_alike_leave_no_doubt() -> None:
    found = saving(image(*[(1000, 4000, 3000)] * 10))
    assert found.value == pytest.approx(0.25)
    assert found.high - found.low == pytest.approx(0, abs=1e-9)


def test_the_saving_is_that_of_all_cycles_and_not_the_mean_of_windows() -> None:
    windows = [(1000, 8000, 4000)] * 5 + [(1000, 2000, 2000)] * 5
    assert saving(image(*windows)).value == pytest.approx(0.4)


def test_an_image_weighs_as_its_references() -> None:
    # As many windows of both, but one made nine times as many references.
    small = image(*[(1000, 1000, 1000)] * 5, references=1_000_000)
    large = image(*[(1000, 1000, 500)] * 5, references=9_000_000, pid=2)
    found = sample(small, large)
    assert there(found.saving).value == pytest.approx(0.45)
    assert (found.windows, found.references, found.sampled_references) == (10, 10_000_000, 10_000)
    assert found.modelled_fraction == 1


def test_a_window_cut_short_counts_for_its_part() -> None:
    whole = [(1000, 1000, 500)] * 10
    assert saving(image(*whole, (1, 1, 1))).value == pytest.approx(0.5, abs=1e-3)
    assert sample(image(*whole, (0, 0, 0))).windows == 10


def test_nothing_left_is_nothing() -> None:
    assert sample_of(()) is None
    assert sample_of([image(references=None)]) is None
    assert "no finished process" in overlap.shortfall(None)


def test_few_windows_do_not_speak_for_a_program() -> None:
    few = sample(image(*[(1000, 4000, 3000)] * 9))
    assert few.saving is None
    assert overlap.shortfall(few) == "9 of its windows could be modelled, and 10 are needed"
    none = sample(image())
    assert (none.windows, none.modelled_fraction) == (0, 0)
    assert overlap.shortfall(none).startswith("none of its windows")
    assert sample(image(references=0)).saving is None


def test_windows_of_few_references_do_not_either() -> None:
    modelled = image(*[(1000, 4000, 3000)] * 20, references=800_000)
    part = sample(modelled, image(references=200_000, pid=2))
    assert part.saving is None
    assert part.modelled_fraction == pytest.approx(0.8)
    assert "80 % of the references" in overlap.shortfall(part)
    # A killed one has no references that are known; T04 reports it.
    assert sample(modelled, image(references=None, pid=2)).saving is not None


def test_what_was_not_modelled_may_save_nothing() -> None:
    modelled = image(*[(1000, 4000, 3000)] * 20, references=950_000)
    found = saving(modelled, image(references=50_000, pid=2))
    assert (found.value, found.low) == (pytest.approx(0.25), pytest.approx(0.25 * 0.95))
    loses = saving(
        image(*[(1000, 3000, 4000)] * 20, references=950_000), image(references=50_000, pid=2)
    )
    assert loses.high == pytest.approx(-0.95 / 3)


def test_phases_that_were_all_sampled_leave_little_doubt() -> None:
    begins, goes_on = [(1000, 1000, 1000)] * 50, [(1000, 1000, 500)] * 50
    found = saving(image(*begins, *goes_on))
    assert found.value == pytest.approx(0.25)
    assert found.high - found.low < 0.02
    mixed = saving(image(*[each for both in zip(begins, goes_on, strict=True) for each in both]))
    assert mixed.high - mixed.low > 0.05


@pytest.mark.parametrize("n", [10, 12, 40, 200])
def test_the_interval_holds_the_truth_in_about_95_of_100(n: int) -> None:
    draw = random.Random(5)
    inside = 0
    for _ in range(1000):
        windows = []
        for _ in range(n):
            base = draw.uniform(50_000, 400_000)
            # Windows differ in what they save: 0.3 of the cycles on average.
            saved = base * draw.uniform(0.0, 0.6)
            windows.append((100_000, round(base), round(base - saved)))
        found = saving(image(*windows, references=10**9))
        inside += found.low <= 0.3 <= found.high
    # Few windows of such spread: 93 of 100.
    assert 0.91 <= inside / 1000 <= 0.975


def test_the_gain_is_the_saving_of_the_user_time() -> None:
    # 0.9 of the run time is user time.
    found = expected_gain(Interval(0.2, 0.2, 0.2), [RUN] * 3, BOUND)
    margin = MODEL_POINTS + MODEL_RELATIVE * 0.18
    assert found.value == pytest.approx(0.18)
    assert found.low == pytest.approx(0.18 - margin)
    assert found.high == pytest.approx(0.18 + margin)


def test_the_model_is_uncertain_where_it_says_nothing_too() -> None:
    found = expected_gain(Interval(0, 0, 0), [RUN], BOUND)
    assert (found.low, found.value, found.high) == (-MODEL_POINTS, 0, MODEL_POINTS)
    loses = expected_gain(Interval(-0.1, -0.1, -0.1), [RUN], BOUND)
    assert loses.low == pytest.approx(-0.09 - MODEL_POINTS - MODEL_RELATIVE * 0.09)


def test_sampling_and_the_runs_widen_it() -> None:
    sure = expected_gain(Interval(0.2, 0.2, 0.2), [RUN] * 3, BOUND)
    sampled = expected_gain(Interval(0.2, 0.1, 0.3), [RUN] * 3, BOUND)
    kernel = replace(RUN, system_ns=RUN.system_ns + RUN.wall_ns)
    varied = expected_gain(Interval(0.2, 0.2, 0.2), [RUN, RUN, kernel], BOUND)
    for wider in (sampled, varied):
        assert wider.value == sure.value
        assert wider.low < sure.low
    assert sampled.high > sure.high
    # No run shows more user time than the median one.
    assert varied.high == pytest.approx(sure.high)


def test_threads_share_the_time_of_all_cpus() -> None:
    two = replace(RUN, user_ns=1_900_000_000, system_ns=100_000_000)
    assert expected_gain(Interval(0.2, 0.2, 0.2), [two], BOUND).value == pytest.approx(0.19)


def test_sleeping_and_waiting_for_a_cpu_change_nothing() -> None:
    slept = replace(RUN, wall_ns=20 * RUN.wall_ns, waited_ns=5 * RUN.wall_ns)
    saving = Interval(0.2, 0.1, 0.3)
    assert expected_gain(saving, [RUN, slept], BOUND) == expected_gain(saving, [RUN, RUN], BOUND)


def test_the_bound_holds() -> None:
    bound = Interval(0.1, 0.05, 0.1)
    found = expected_gain(Interval(0.2, 0.1, 0.3), [RUN], bound)
    assert (found.value, found.high) == (0.1, 0.1)
    assert found.low <= found.value
    nothing = expected_gain(Interval(0.2, 0.2, 0.2), [RUN], Interval(0, 0, 0))
    assert (nothing.low, nothing.value, nothing.high) == (0, 0, 0)


@pytest.mark.parametrize(("bound", "code"), [(0.019, "not_worth_it"), (0.3, "not_proven")])
def test_only_the_bound_rules_a_gain_out(bound: float, code: str) -> None:
    assert verdict(Interval(-0.07, -0.15, 0.015), None, False, Interval(bound, 0, bound)) == code


def test_no_run_is_refused() -> None:
    with pytest.raises(ValueError, match="no median"):
        expected_gain(Interval(0.2, 0.2, 0.2), [], BOUND)
