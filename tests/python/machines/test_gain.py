# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the counts and cycles of other machines come to?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.machines import BASE, HUGE, MTHP, SIDES, machine, report, simulation
from tlbcost.machines.gain import results, sentence
from tlbcost.machines.one_pass import plan_pass
from tlbcost.machines.plan import GIB
from tlbcost.simulator.counts import SideCounts


def test_each_machine_is_compared_with_its_own_base_pages() -> None:
    machines = [machine("skx", BASE, HUGE, GIB), machine("icx")]
    plan = plan_pass(machines)
    first, second = results(machines, plan, simulation((2500, 2000, 1900)))
    ratios = [size.time_ratio.value for size in first.sizes if size.time_ratio is not None]
    assert ratios == pytest.approx([1.0, 0.8, 2.5])
    assert [size.verdict for size in first.sizes] == ["alike", "faster", "slower"]
    assert first.sizes[2].counts["load"].stlb_misses == 10
    assert second.sizes[1].time_ratio is not None
    assert second.sizes[1].time_ratio.value == pytest.approx(0.95)
    assert second.sizes[1].verdict == "alike"
    assert "would make this slower" in sentence(first.sizes[2], first.sizes[0])
    assert "not proven" in sentence(second.sizes[1], second.sizes[0])


@pytest.mark.parametrize("like", [None, BASE])
def test_gigabyte_pages_that_no_mapping_spans_have_no_time(like: int | None) -> None:
    made = machine("skx", BASE, HUGE, GIB)
    gib = replace(made.sizes[2], like=like, note="in pieces" if like else None)
    machines = [replace(made, sizes=(*made.sizes[:2], gib))]
    plan = plan_pass(machines)
    assert plan.views[0].rest == -1
    seen = simulation((700,))
    spanned = results(machines, plan, seen)[0].sizes[2]
    assert spanned.time_ratio is not None
    assert spanned.time_ratio.value == pytest.approx(0.7)
    assert spanned.size.note == gib.note
    alike = {side: SideCounts(5, 2, 3) for side in SIDES}
    seen = replace(seen, views=(replace(seen.views[0], counts={0: alike}),))
    found = results(machines, plan, seen)[0].sizes
    assert found[1].time_ratio is not None
    assert (found[2].time_ratio, found[2].cycles_per_reference) == (None, None)
    assert found[2].verdict == "unknown"
    assert found[2].size.note is not None
    assert "no mapping in which the program misses is as large as such a page" in found[2].size.note
    assert ("in pieces; " in found[2].size.note) == (like is not None)


def test_without_enough_windows_there_are_misses_but_no_times() -> None:
    machines = [machine("skx")]
    result = results(machines, plan_pass(machines), simulation((), windows=3))[0]
    assert result.sizes[1].time_ratio is None
    assert result.sizes[1].verdict == "unknown"
    assert result.sizes[1].counts["load"].stlb_misses == 3
    assert result.no_times is not None
    assert sentence(result.sizes[1], result.sizes[0]) == "2 MiB pages: only misses are known."


def test_a_machine_without_figures_has_no_times() -> None:
    machines = [machine("skx"), machine("arm_v3")]
    other = results(machines, plan_pass(machines), simulation((1000, 500)))[1]
    assert [size.time_ratio for size in other.sizes] == [None, None]
    assert other.sizes[1].counts["store"].stlb_misses == 11


def test_a_size_that_was_not_simulated_has_no_figures() -> None:
    machines = [machine("nhm", BASE, MTHP, HUGE, GIB), machine("skx", BASE, HUGE, GIB)]
    nhm, skx = results(machines, plan_pass(machines), simulation((9,) * 6))
    gib = nhm.sizes[3]
    assert (gib.counts, gib.cycles_per_reference, gib.time_ratio) == (None, None, None)
    assert gib.verdict == "unknown"
    assert sentence(gib, nhm.sizes[0]) == "1 GiB pages: not available (NA)."
    assert [size.counts is not None for size in nhm.sizes[:3]] == [True] * 3
    assert skx.sizes[2].counts is not None


def test_sizes_in_pieces_have_the_counts_of_the_pieces() -> None:
    machines = [machine("skx", BASE, MTHP, HUGE)]
    found = results(machines, plan_pass(machines), simulation((9, 9, 9)))[0]
    assert found.sizes[1].counts == found.sizes[0].counts


def test_without_assumptions_nothing_is_said_of_them() -> None:
    sure = replace(machine("skx"), assumed=())
    assert report([sure], ()).caveats == ()
