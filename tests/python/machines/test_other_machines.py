# SPDX-License-Identifier: GPL-2.0-or-later
"""Which machines are simulated in one run, on which page sizes, and what do they come to?"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from tlbcost.commands.estimate import page_sizes
from tlbcost.common import paths
from tlbcost.common.document import to_json as document_text
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.machines import published_timing as core_figures
from tlbcost.machines.document import to_json
from tlbcost.machines.gain import MachineEstimates, results, sentence
from tlbcost.machines.list_document import machine_list
from tlbcost.machines.plan import GIB, OtherMachine, machine_named, named, names_of, plan_pass
from tlbcost.machines.published_timing import figures_of, published_core
from tlbcost.machines.report import print_report
from tlbcost.processors.geometry import TlbLevel
from tlbcost.processors.published import cores
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.counts import ProcessCounts, Side, SideCounts
from tlbcost.simulator.run import Simulation
from tlbcost.simulator.views import ImageViews, read_views
from tlbcost.simulator.windows import ImageWindows, Window

SCHEMAS = Path(__file__).parents[3] / "data" / "schema"
BASE, MTHP, HUGE = 4 << 10, 64 << 10, 2 << 20
OUTCOME = Outcome(None, "", None, 0, None, None)
SIDES: tuple[Side, ...] = ("load", "store", "fetch")


def machine(name: str, *sizes: int) -> OtherMachine:
    return machine_named(name, sizes or (BASE, HUGE), None, None)


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


def test_every_core_can_be_listed_and_its_figures_have_sources() -> None:
    document = json.loads(document_text(machine_list(cores())))
    schema = json.loads((SCHEMAS / "machines.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    for each in document["machines"]:
        used = {row["source"] for row in [*each["levels"], *each["figures"].values()]}
        assert used <= set(each["sources"])


def test_a_core_is_timed_only_if_all_that_is_needed_is_published() -> None:
    timed = {core.core for core in cores() if published_core(core, figures_of(core.core))}
    assert {"snb", "skx", "icx", "amd64_fam19h_zen4"} <= timed
    assert "power9" not in timed
    assert machine("arm_n1").core is None
    assert "ghz" in (machine("arm_n1").no_core or "")


def test_a_damaged_figure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = paths.data("machines", "snb.tsv").read_text(encoding="utf-8")
    (tmp_path / "snb.tsv").write_text(text.replace("core_ghz: 2.9 ", "core_ghz: fast "))
    monkeypatch.setattr(core_figures.paths, "data", lambda _folder, name: tmp_path / name)
    with pytest.raises(TlbcostError, match="core_ghz"):
        figures_of("snb")


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


def test_a_size_that_a_machine_lacks_is_refused() -> None:
    with pytest.raises(TlbcostError, match="no 1 GiB pages") as caught:
        machine("nhm", BASE, GIB)
    assert caught.value.exit_code == CANNOT_MEASURE
    assert caught.value.hint == "it has 4 KiB, 2 MiB"


def test_sizes_are_read_ascending_from_base_pages_on() -> None:
    assert page_sizes("1G,64K") == (BASE, MTHP, GIB)
    for wrong in ("", "3K", "3M", "2", "x", "1T", "4K,,2M"):
        with pytest.raises(argparse.ArgumentTypeError):
            page_sizes(wrong)


def test_the_first_machine_needs_no_view_unless_its_second_level_is_split() -> None:
    plan = plan_pass([machine("skx"), machine("icx"), machine("zen4")])
    assert plan.first
    assert len(plan.cells) == 6
    options = [view.options()[0] for view in plan.views]
    assert options == [
        "--view=page=4096,l1d=64:4,l1i=128:8,stlb=2048:16,folded=1",
        "--view=page=2097152,l1d=32:4,l1i=16:16,stlb=2048:16,folded=1",
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
        plan_pass([machine("skx", BASE, MTHP, HUGE) for _ in range(9)])


def counts(walks: int) -> dict[Side, SideCounts]:
    return {side: SideCounts(walks + 1, 1, walks) for side in SIDES}


def simulation(view_cycles: tuple[int, ...], windows: int = 20) -> Simulation:
    """The first machine's windows take 1000 and 800 cycles; the views what is given."""
    seen = {(size, side): SideCounts(5, 2, 3) for size in (BASE, HUGE) for side in SIDES}
    process = ProcessCounts(1, 0, "app", 1, seen, None)
    rows = tuple(Window(100, 1000, 800) for _ in range(windows))
    views = ImageViews(
        {view: counts(view + 10) for view in range(len(view_cycles))},
        100 * windows,
        tuple((100, dict(enumerate(view_cycles))) for _ in range(windows)),
    )
    image = ImageWindows(1, "app", 100 * windows, "x", rows)
    return Simulation((process,), OUTCOME, (image,), views=(views,))


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
    assert "too close to call" in sentence(second.sizes[1], second.sizes[0])


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
    assert "no mapping of the program spans such a page" in found[2].size.note
    assert ("in pieces; " in found[2].size.note) == (like is not None)


def test_without_enough_windows_there_are_misses_but_no_times() -> None:
    machines = [machine("skx")]
    result = results(machines, plan_pass(machines), simulation((), windows=3))[0]
    assert result.sizes[1].time_ratio is None
    assert result.sizes[1].verdict == "unknown"
    assert result.sizes[1].counts["load"].stlb_misses == 3
    assert result.no_times is not None
    assert sentence(result.sizes[1], result.sizes[0]) == "2 MiB pages: only misses are told."


def test_a_machine_without_figures_has_no_times() -> None:
    machines = [machine("skx"), machine("arm_n1")]
    other = results(machines, plan_pass(machines), simulation((1000, 500)))[1]
    assert [size.time_ratio for size in other.sizes] == [None, None]
    assert other.sizes[1].counts["store"].stlb_misses == 11


def test_sizes_in_pieces_have_the_counts_of_the_pieces() -> None:
    machines = [machine("skx", BASE, MTHP, HUGE)]
    found = results(machines, plan_pass(machines), simulation((9, 9, 9)))[0]
    assert found.sizes[1].counts == found.sizes[0].counts


def report(tmp_machines: list[OtherMachine], cycles: tuple[int, ...]) -> MachineEstimates:
    found = results(tmp_machines, plan_pass(tmp_machines), simulation(cycles))
    return MachineEstimates("1", "2026-11-22T00:00:00Z", ("./app",), None, None, found)


def test_the_report_says_what_is_assumed(tmp_path: Path) -> None:
    made = report([machine("skx", BASE, HUGE, GIB), machine("arm_n1")], (2500, 1, 1))
    assert [caveat.code for caveat in made.caveats] == ["M01", "M02"]
    with (tmp_path / "text").open("w+") as file:
        print_report(made, file)
        file.seek(0)
        text = file.read()
    assert "1 GiB pages would make this slower" in text
    assert "No times: not published" in text
    document = json.loads(to_json(made))
    schema = json.loads((SCHEMAS / "machine-estimate.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    assert document["machines"][1]["page_sizes"][1]["time_ratio"] is None


def test_without_assumptions_nothing_is_said_of_them() -> None:
    sure = replace(machine("skx"), assumed=())
    assert report([sure], ()).caveats == ()


@pytest.mark.parametrize("wrong", ["0\tload\t1\t0\tNA\n# end: 1", "0\tload\t1\t0\n# end: 1", ""])
def test_a_damaged_table_of_views_is_refused(tmp_path: Path, wrong: str) -> None:
    header = "# tlbcost views 1\n# pid: 1\n# program: app\n# state: exited\n"
    (tmp_path / "views.1.0.tsv").write_text(
        f"{header}view\taccess\tl1_tlb_misses\tstlb_hits\tstlb_misses\n{wrong}\n"
    )
    with pytest.raises(TlbcostError, match="not what the simulator writes"):
        read_views(tmp_path)
