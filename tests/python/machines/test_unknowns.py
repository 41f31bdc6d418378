# SPDX-License-Identifier: GPL-2.0-or-later
"""What do guesses do to an answer, and which of them matter most?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.machines import BASE, HUGE, SIDES, counts, machine, simulation
from builders.tree import valid
from tlbcost.common.document import to_json as document_text
from tlbcost.machines.estimate import MachineEstimates, effect_of, model_error, results, spread
from tlbcost.machines.list_document import machine_list, ranking
from tlbcost.machines.plan import MOST_VARIANTS, named, plan_pass
from tlbcost.machines.unknowns import OTHERS, Unknown, Variant, figures_of, unknowns_of
from tlbcost.processors.published import TlbLevel, assumed, cores
from tlbcost.simulator.counts import MOST_VIEWS, ImageViews


def test_a_guess_is_tried_at_the_end_that_is_farther_away() -> None:
    assert Unknown("memory_ns", 80, 70, 110).tried == 110
    assert Unknown("memory_ns", 80, 70, 110).opposite == pytest.approx(-1 / 3)
    assert Unknown("walkers", 2, 1, 2).tried == 1
    assert Unknown("walkers", 2, 1, 2).opposite == 0


def test_the_other_end_has_the_opposite_effect_in_proportion() -> None:
    skx = machine("skx", guesses=True)
    assert skx.core is not None
    variant = Variant((Unknown("memory_ns", 80, 70, 110),), skx.core, (None, None))
    effect = effect_of(variant, 0.5, 0.44)
    assert (effect.below, effect.above) == (pytest.approx(0.06), pytest.approx(0.02))
    assert spread([effect, effect])[0] == pytest.approx(0.06 * 2**0.5)
    assert spread([]) == (0, 0)


def test_only_figures_without_a_checked_source_are_varied() -> None:
    core = named("tgl")
    known = figures_of(core.core)
    names = {each.name for each in unknowns_of(core, known, (BASE, HUGE))}
    assert "walk_cycles" in names
    assert "l2_cycles" not in names
    assert {name for name, figure in known.figures.items() if not figure.verified} == names
    srf = named("srf")
    levels = {each.name for each in unknowns_of(srf, figures_of(srf.core), (BASE, HUGE))}
    assert f"dtlb_entries_{HUGE}" in levels
    assert f"dtlb_entries_{BASE}" not in levels


def test_what_no_vendor_publishes_is_assumed_where_the_rest_is_known() -> None:
    haswell = figures_of("hsw").figures
    assert haswell["walk_cycles"] == assumed()["walk_cycles"]
    assert not any(figure.verified for figure in assumed().values())
    assert {name for name, figure in haswell.items() if not figure.verified} < set(assumed())
    # What a core's own file says goes before; a core that lacks more is not timed.
    assert figures_of("snb").figures["l3_adaptive"].value == 0
    assert "walk_cycles" not in figures_of("ppc970").figures


def test_the_most_important_guesses_are_tried_one_by_one_and_the_others_together() -> None:
    made = machine("power9", guesses=True)
    assert len(made.variants) == MOST_VARIANTS + 1
    assert made.variants[-1].name == OTHERS
    assert len(made.variants[-1].unknowns) > 1
    plan = plan_pass([made])
    assert len(plan.varied) <= 2 * len(made.variants)
    # A level of one page size leaves the other as it is.
    levels = [each for each in made.variants[:-1] if each.unknowns[0].level is not None]
    for each in levels:
        assert [geometry is None for geometry in each.geometries].count(True) == 1
    entries = [each.geometries[1] for each in levels if each.unknowns[0].level == ("stlb", HUGE)]
    assert [pages.stlb for pages in entries if pages is not None] in ([], [TlbLevel(512, 4)])


def test_many_machines_share_the_views() -> None:
    plan = plan_pass([machine(name, guesses=True) for name in ("skx", "icx", "spr", "zen4", "snb")])
    assert len(plan.views) <= MOST_VIEWS
    assert {m for m, _, _ in plan.varied} == {0, 1, 2, 3, 4}


def test_guesses_widen_the_interval_and_the_widest_is_named() -> None:
    made = machine("tgl", guesses=True)
    plan = plan_pass([made])
    seen = simulation(tuple(1000 for _ in plan.views))
    base = {v: view for (_, v, s), view in plan.varied.items() if s == 0}
    huge = {v: view for (_, v, s), view in plan.varied.items() if s == 1}
    rows = []
    for references, _ in seen.views[0].windows:
        cycles = {**dict.fromkeys(base.values(), 1000), **dict.fromkeys(huge.values(), 800)}
        cycles[huge[0]] = 1000
        rows.append((references, cycles))
    views = ImageViews({view: counts(9) for view in range(len(plan.views))}, 2000, tuple(rows))
    assert set(SIDES)
    [result] = results([made], plan, replace(seen, views=(views,)))
    size = result.sizes[1]
    assert size.time_ratio is not None
    assert size.time_ratio.value == pytest.approx(0.8)
    assert size.effects[0].figure == made.variants[0].name
    assert size.effects[0].above == pytest.approx(0.2)
    assert size.time_ratio.high == pytest.approx(0.8 + (model_error(0.8) ** 2 + 0.04) ** 0.5)
    assert size.verdict == "alike"
    report = MachineEstimates("1", "2026-11-22T00:00:00Z", ("./app",), None, None, (result,))
    [text] = [caveat.text for caveat in report.caveats if caveat.code == "M03"]
    assert made.variants[0].name in text


def test_what_is_not_known_is_ranked() -> None:
    core = named("power10")
    found = ranking(core, figures_of(core.core))
    worth = [max(effect) for _, effect in found]
    assert worth == sorted(worth, reverse=True)
    assert worth[0] > 0.01
    arm = named("arm_v3")
    assert ranking(arm, figures_of(arm.core)) == []


def test_the_models_own_error_is_one_of_translation() -> None:
    assert model_error(1.0) == pytest.approx(0.03)
    assert model_error(0.3) < model_error(0.6)
    assert model_error(3.0) == pytest.approx(0.03 + 0.25 * 2)


def test_every_core_can_be_listed_and_its_figures_have_sources() -> None:
    for each in valid(document_text(machine_list(cores())), "machines")["machines"]:
        rows = [*each["levels"], *each["figures"].values()]
        used = {key for row in rows for key in row["source"].split("+")}
        assert used <= set(each["sources"])
        assert bool(each["unknowns"]) == (not each["missing_for_times"])
