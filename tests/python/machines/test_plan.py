# SPDX-License-Identifier: GPL-2.0-or-later
"""Which machines are simulated on which page sizes, what comes of it, and what is shown?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.machines import BASE, HUGE, MTHP, SIDES, machine, report, simulation
from builders.tree import fails, printed, there, valid
from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.machines import unknowns
from tlbcost.machines.document import best_first, plain_sentence, print_report, to_json, verdict
from tlbcost.machines.estimate import MachineEstimates, results, sentence
from tlbcost.machines.plan import GIB, named, names_of, plan_pass
from tlbcost.machines.unknowns import figures_of, published_core
from tlbcost.processors.published import TlbLevel, cores
from tlbcost.simulator.counts import SideCounts


def test_every_name_means_one_core() -> None:
    names = [name for core in cores() for name in names_of(core)]
    assert len(names) == len(set(names))
    assert named("ZEN4").core == "amd64_fam19h_zen4"
    assert named("e5-4617").core == named("snb").core == "snb"


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
    with fails("Nehalem for 1 GiB pages are not on file", CANNOT_MEASURE):
        plan_pass([machine("nhm", BASE, GIB)])
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


def test_each_machine_is_compared_with_its_own_base_pages() -> None:
    machines = [machine("skx", BASE, HUGE, GIB), machine("icx")]
    plan = plan_pass(machines)
    first, second = results(machines, plan, simulation((2500, 2000, 1900)))
    ratios = [size.time_ratio.value for size in first.sizes if size.time_ratio is not None]
    assert ratios == pytest.approx([1.0, 0.8, 2.5])
    assert [size.verdict for size in first.sizes] == ["alike", "faster", "slower"]
    assert first.sizes[2].counts["load"].stlb_misses == 10
    assert there(second.sizes[1].time_ratio).value == pytest.approx(0.95)
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
    assert there(spanned.time_ratio).value == pytest.approx(0.7)
    assert spanned.size.note == gib.note
    alike = {side: SideCounts(5, 2, 3) for side in SIDES}
    seen = replace(seen, views=(replace(seen.views[0], counts={0: alike}),))
    found = results(machines, plan, seen)[0].sizes
    assert found[1].time_ratio is not None
    assert (found[2].time_ratio, found[2].cycles_per_reference) == (None, None)
    assert found[2].verdict == "unknown"
    note = there(found[2].size.note)
    assert "no mapping in which the program misses is as large as such a page" in note
    assert ("in pieces; " in note) == (like is not None)


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


def text_of(made: MachineEstimates, *, details: bool = True) -> str:
    return printed(print_report, made, details=details)


def test_the_summary_fits() -> None:
    names = ("skx", "icx", "zen4", "zen3", "skl")
    machines = [machine(name, BASE, MTHP, HUGE, GIB) for name in names]
    for made in (
        report([machine("skx", BASE, HUGE, GIB), machine("arm_v3")], (2500, 1, 1)),
        report([machine("skx")], ()),
        report(machines, tuple(range(500, 800, 15))),
    ):
        lines = text_of(made, details=False).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
        assert lines[-1].endswith("--details")
    assert [
        line.split()[1] for line in lines if " to " in line and line.startswith(("AMD", "Intel"))
    ]
    crowd = [machine(name, BASE, MTHP, HUGE, GIB) for name in names]
    many = report([replace(crowd[0], name=f"skx{i}") for i in range(20)], tuple(range(500, 600)))
    assert "more lines: --details" in text_of(many, details=False)


@pytest.mark.parametrize(
    ("cycles", "words"),
    [
        ((2500,), "SLOWER: larger pages should take more time."),
        ((990,), "NOT PROVEN: no larger page size is clearly faster."),
        ((300,), "FASTER: 1 GiB pages should save time: 0.30 of the time on 4 KiB pages ("),
    ],
)
def test_the_verdict(cycles: tuple[int, ...], words: str) -> None:
    [made] = report([machine("skx", BASE, HUGE, GIB)], cycles).machines
    sizes = (made.sizes[0], made.sizes[2])
    assert verdict([replace(made, sizes=sizes)]).startswith(words)


def test_the_report_says_what_is_assumed() -> None:
    made = report([machine("skx", BASE, HUGE, GIB), machine("arm_v3")], (2500, 1, 1))
    assert [caveat.code for caveat in made.caveats] == ["M01", "M02"]
    text = text_of(made)
    assert "1 GiB pages would make this slower" in text
    assert "No times: not published" in text
    document = valid(to_json(made), "machine-estimate")
    assert document["machines"][1]["page_sizes"][1]["time_ratio"] is None


def test_a_size_that_is_not_known_is_na() -> None:
    made = report([machine("nhm", BASE, HUGE, GIB)], (1, 1))
    assert [caveat.code for caveat in made.caveats] == ["M01"]
    text = text_of(made)
    row = next(line for line in text.splitlines() if line.startswith("1 GiB "))
    assert row.split() == ["1", "GiB", *["NA"] * 6]
    assert "1 GiB pages: not available (NA)." in text
    assert "the TLBs of Intel Nehalem for 1 GiB pages are not on file." in text
    last = valid(to_json(made), "machine-estimate")["machines"][0]["page_sizes"][2]
    assert (last["tlb"], last["misses"], last["time_ratio"]) == (None, None, None)


def test_several_machines_are_one_table_best_first_and_a_sentence() -> None:
    made = report([machine("skx"), machine("zen4"), machine("arm_v3")], (1000, 300, 9, 9))
    text = text_of(made, details=False)
    assert text.index("AMD Zen 4  ") < text.index("Intel Skylake-X or Cascade Lake-X  ")
    sentence = there(plain_sentence(made.machines))
    assert sentence.startswith("On AMD Zen 4 2 MiB pages save 70 % (")
    assert "on Intel Skylake-X or Cascade Lake-X 2 MiB pages save 20 % (" in sentence
    assert plain_sentence(made.machines[:1]) is None
    assert [size is None for _, size in best_first(made.machines)] == [False, False, True]


# Of clouds and data centres today, and of the published tables.
RENTED = (
    "skx", "icx", "spr", "emr", "gnr", "srf", "amd64_fam17h_zen2", "amd64_fam19h_zen3",
    "amd64_fam19h_zen4", "amd64_fam1ah_zen5", "arm_n1", "arm_n2", "arm_v1", "arm_v2", "arm_ac76",
    "power9", "power10", "snb", "hsw", "bdw", "icl", "tgl",
)  # fmt: skip


def test_a_core_is_timed_only_if_all_that_is_needed_is_published() -> None:
    timed = {core.core for core in cores() if published_core(figures_of(core.core))}
    assert {"snb", "skx", "icx", "amd64_fam19h_zen4"} <= timed
    assert "arm_v3" not in timed
    assert machine("arm_v3").core is None
    assert "ghz" in (machine("arm_v3").no_core or "")


@pytest.mark.parametrize("core", RENTED)
def test_every_core_that_is_rented_out_is_timed(core: str) -> None:
    known = figures_of(core)
    assert known.missing() == ()
    assert published_core(known) is not None


def test_a_damaged_figure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = paths.data("machines", "snb.tsv").read_text(encoding="utf-8")
    (tmp_path / "snb.tsv").write_text(text.replace("core_ghz: 2.9 ", "core_ghz: fast "))
    monkeypatch.setattr(unknowns.paths, "data", lambda _folder, name: tmp_path / name)
    with pytest.raises(TlbcostError, match="core_ghz"):
        figures_of("snb")
