# SPDX-License-Identifier: GPL-2.0-or-later
"""Which machines are simulated in one run, on which page sizes?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.machines import BASE, HUGE, MTHP, machine
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.machines.one_pass import plan_pass
from tlbcost.machines.plan import GIB, named, names_of
from tlbcost.processors.geometry import TlbLevel
from tlbcost.processors.published import cores


def test_every_name_means_one_core() -> None:
    names = [name for core in cores() for name in names_of(core)]
    assert len(names) == len(set(names))
    assert named("ZEN4").core == "amd64_fam19h_zen4"
    assert named("e5-4617").core == named("snb").core == "snb"


def test_an_unknown_machine_names_the_nearest() -> None:
    with pytest.raises(TlbcostError, match="no machine is called 'zen9'") as caught:
        named("zen9")
    assert caught.value.exit_code == USAGE
    assert "zen4" in (caught.value.hint or "")


def test_sandy_bridge_has_no_second_level_for_larger_pages() -> None:
    snb = machine("snb", BASE, HUGE, GIB)
    base, huge, gib = (size.geometry for size in snb.sizes)
    assert (base.dtlb, base.stlb) == (TlbLevel(64, 4), TlbLevel(512, 4))
    assert (huge.dtlb, huge.stlb) == (TlbLevel(32, 4), None)
    assert (gib.dtlb, gib.stlb) == (TlbLevel(4, 4), None)


def test_a_size_between_misses_as_base_pages_do_on_x86() -> None:
    size = machine("skx", BASE, MTHP).sizes[1]
    assert size.like == BASE
    assert size.geometry.entry_bytes == BASE
    assert "page faults" in (size.note or "")


def test_a_size_that_a_machine_lacks_is_not_simulated() -> None:
    made = machine("nhm", BASE, HUGE, GIB)
    assert made.sizes[2].geometry is None
    assert made.sizes[2].note == "the TLBs of Intel Nehalem for 1 GiB pages are not on file"
    plan = plan_pass([machine("skx", BASE, HUGE, GIB), made])
    assert plan.cells == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1))


def test_without_2_mib_pages_the_simulator_is_given_any() -> None:
    made = machine("skx", BASE, HUGE, GIB)
    unknown = replace(made.sizes[1], geometry=None)
    plan = plan_pass([replace(made, sizes=(made.sizes[0], unknown, made.sizes[2]))])
    assert not plan.first
    assert plan.cells == ((0, 0), (0, 2))
    assert plan.views[1].rest == 0


def test_too_little_that_is_known_is_refused() -> None:
    with pytest.raises(TlbcostError, match="Nehalem for 1 GiB pages are not on file") as caught:
        plan_pass([machine("nhm", BASE, GIB)])
    assert caught.value.exit_code == CANNOT_MEASURE
    made = machine("skx", BASE, HUGE)
    first = replace(made.sizes[0], geometry=None, note="none")
    with pytest.raises(TlbcostError, match="no estimate: none"):
        plan_pass([replace(made, sizes=(first, made.sizes[1]))])
    assert plan_pass([machine("nhm", BASE)]).cells == ((0, 0),)


def test_the_first_machine_needs_no_view_unless_its_second_level_is_split() -> None:
    plan = plan_pass([machine("skx"), machine("icx"), machine("zen4")])
    assert plan.first
    assert len(plan.cells) == 6
    options = [view.options()[0] for view in plan.views]
    assert options == [
        "--view=page=4096,l1d=64:4,l1i=128:8,stlb=2048:16,folded=1",
        "--view=page=2097152,l1d=32:4,l1i=16:8,stlb=1024:8,folded=1",
        "--view=page=4096,l1d=72:72,l1i=64:64,stlb=3072:24,code-stlb=512:8",
        "--view=page=2097152,l1d=72:72,l1i=64:64,stlb=3072:24,code-stlb=512:8",
    ]
    assert not plan_pass([machine("zen4")]).first


def test_memory_that_no_gigabyte_page_spans_stays_on_base_pages() -> None:
    assert plan_pass([machine("snb", BASE, HUGE, GIB)]).views[0].rest == -1
    plan = plan_pass([machine("zen4", BASE, HUGE, GIB)])
    assert [view.rest for view in plan.views] == [None, None, 0]


def test_too_many_machines_for_one_run_are_refused() -> None:
    with pytest.raises(TlbcostError, match="too many for one run"):
        plan_pass([machine("skx", BASE, MTHP, HUGE) for _ in range(33)])
