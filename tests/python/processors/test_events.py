# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the event tables hold together, and are their formulas right?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from builders.tree import there
from tlbcost.common import formats, paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import read_table
from tlbcost.processors.events import (
    ACCESSES,
    ROLES,
    Pmu,
    all_pmus,
    evaluate,
    load_pmu,
    names,
    read_pmu,
    select,
)

PMUS = all_pmus()


@pytest.mark.parametrize("pmu", PMUS, ids=lambda pmu: pmu.key)
def test_a_table_is_whole(pmu: Pmu) -> None:
    table = read_table(paths.data("events", f"{pmu.key}.tsv"), formats.EVENTS)
    used = {key for event in pmu.events for key in event.sources}
    assert used == set(pmu.sources), "each source is used, and each used one explained"
    assert {"cycles", "instructions"} <= {event.name for event in pmu.events}
    for prefix in ("note_", "erratum_"):
        numbers = [int(key.removeprefix(prefix)) for key in table.header if prefix in key]
        assert numbers == list(range(1, len(numbers) + 1))
    for event in pmu.events:
        assert (event.string is None) == (event.libpfm4 is None)
        assert event.libpfm4 in (None, "4.13.0", "4.13.0+git99")
        if event.string is not None:
            prefix = event.string.partition("::")[0]
            assert prefix in (pmu.pmu, "perf")
            assert ("encoded" in event.sources) == (event.libpfm4 == "4.13.0")
        assert event.code is not None
        assert event.spec().count("|") <= 2
        assert not re.search(r"[\s,]", event.spec())


@pytest.mark.parametrize("pmu", PMUS, ids=lambda pmu: pmu.key)
def test_shares_are_shares(pmu: Pmu) -> None:
    for name, formula in pmu.formulas.items():
        used = names(formula)
        assert used <= {event.name for event in pmu.events}
        counts = {key: 1e6 + 7919 * number for number, key in enumerate(sorted(used))}
        for factor in (1e-3, 1.0, 1e3):
            counts["cycles"] = 1e7 * factor
            value = evaluate(formula, counts)
            assert value is not None, name
            assert value >= 0
            if name.endswith("share"):
                assert value <= 1
                assert evaluate(formula, counts | {"cycles": 0.0}) is None
        if name.endswith("share"):
            assert "cycles" in used
            zeros = dict.fromkeys(used, 0.0) | {"cycles": 1e7}
            assert evaluate(formula, zeros) in (0, None)


@pytest.mark.parametrize("pmu", PMUS, ids=lambda pmu: pmu.key)
def test_every_part_grows_the_share(pmu: Pmu) -> None:
    """No event is left out of a formula by a slip of arithmetic."""
    for name in ("share", "walks", "hits", "exposed_share", "pending_share"):
        formula = pmu.formulas.get(name)
        if formula is None:
            continue
        # Differences of counts, and what shares them out, grow or fall.
        odd = {"stlb_misses.any", "l1d_miss_cycles", "l1i_miss_cycles", "cycles"}
        counts = dict.fromkeys(names(formula), 1e3) | {"cycles": 1e9}
        before = evaluate(formula, counts)
        assert before is not None
        for part in names(formula) - (odd if name != "walks" else {"cycles"}):
            assert there(evaluate(formula, counts | {part: 2e3})) > before, f"{name}: {part}"


@pytest.mark.parametrize("pmu", PMUS, ids=lambda pmu: pmu.key)
def test_generic_events(pmu: Pmu) -> None:
    known = {"dtlb_loads", "dtlb_load_misses", "dtlb_store_misses", "itlb_load_misses"}
    assert set(pmu.generic) <= known
    if pmu.key != "perf":
        assert {"dtlb_load_misses", "dtlb_store_misses", "itlb_load_misses"} <= set(pmu.generic)
    for generic in pmu.generic.values():
        if generic.counts is not None:
            role, _, access = generic.counts.partition(".")
            assert role in ROLES
            assert access in ("", *ACCESSES)


# Counts made up, values by hand from the makers' formulas.
SKYLAKE = {
    "cycles": 1e9,
    "stlb_hits.load": 4e6, "stlb_hits.store": 1e6, "stlb_hits.fetch": 5e5,
    "stlb_hit_active_cycles.load": 3e6, "stlb_hit_active_cycles.store": 1e6,
    "walks_completed.load": 2e6, "walks_completed.store": 5e5, "walks_completed.fetch": 1e5,
    "walk_active_cycles.load": 6e7, "walk_active_cycles.store": 1e7,
    "walk_active_cycles.fetch": 2e6,
    "walk_pending_cycles.load": 8e7, "walk_pending_cycles.store": 1.2e7,
    "walk_pending_cycles.fetch": 2e6,
    "memory_bound_cycles": 5e8, "l1d_miss_cycles": 4.2e8, "walk_stall_cycles.fetch": 4e6,
    "ept_walk_active_cycles.any": 0.0,
}  # fmt: skip


HASWELL = {
    "cycles": 1e9,
    "stlb_hits.load": 4e6, "stlb_hits.store": 1e6, "stlb_hits.fetch": 5e5,
    "walks_completed.load": 2e6, "walks_completed.store": 5e5, "walks_completed.fetch": 1e5,
    "walk_active_cycles.load": 6e7, "walk_active_cycles.store": 1e7,
    "walk_active_cycles.fetch": 2e6,
}  # fmt: skip


POWER9 = {
    "cycles": 8e9, "dtlb_misses": 9e7, "stlb_misses.data": 2e7, "stlb_misses.fetch": 1e6,
    "walk_active_cycles.data": 1.4e9, "walk_active_cycles.fetch": 2e8,
    "walk_stall_cycles.data": 6e8,
}  # fmt: skip


Z14 = {
    "cycles": 1e10, "walk_pending_cycles.data": 3e8, "walk_pending_cycles.fetch": 1e8,
    "walks_completed.data": 4e6, "walks_completed.fetch": 1e6,
    "memory_bound_cycles": 2e9, "l1i_miss_cycles": 1e9, "l1d_miss_cycles": 1.5e9,
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "counts", "formula", "value"),
    [
        # (60 + 10 + 2) M of 1000 M cycles.
        ("skl", SKYLAKE, "share", 0.072),
        ("skl", SKYLAKE, "data_share", 0.07),
        ("skl", SKYLAKE, "walks", 2.6e6),
        ("skl", SKYLAKE, "data_hits", 5e6),
        # (80 + 12 + 2) M over 2.6 M walks.
        ("skl", SKYLAKE, "walk_cycles", 36.1538462),
        # min(9 x 3 M + 60 M, 500 M - 420 M) + 9 x 1 M + 10 M = 80 M + 19 M.
        ("skl", SKYLAKE, "tma_data_share", 0.099),
        ("skl", SKYLAKE, "tma_code_share", 0.004),
        # min(7 x 3 M + 60 M, 80 M) + 7 x 1 M + 10 M.
        ("spr", SKYLAKE, "tma_data_share", 0.097),
        ("hsw", HASWELL, "share", 0.072),
        ("hsw", HASWELL, "walk_cycles", 72 / 2.6),
        # 8 x 4 M + 60 M + 8 x 1 M + 10 M; 14 x 0.5 M + 2 M.
        ("hsw", HASWELL, "tma_data_share", 0.11),
        ("hsw", HASWELL, "tma_code_share", 0.009),
        # the same, and 7 for each of 2.5 M walks.
        ("bdw", HASWELL, "tma_data_share", 0.1275),
        # 7 x 4 M + 60 M + 7 x 1 M + 10 M; 12 x 0.5 M + 2 M.
        ("snb", HASWELL, "tma_data_share", 0.105),
        ("snb", HASWELL, "tma_code_share", 0.008),
        ("power9", POWER9, "share", 0.2),
        ("power9", POWER9, "exposed_share", 0.075),
        ("power9", POWER9, "walk_cycles", 70),
        ("power9", POWER9, "data_hits", 7e7),
        ("cpum_cf_z14", Z14, "pending_share", 0.04),
        # 4 % x 2 G / 2.5 G.
        ("cpum_cf_z14", Z14, "exposed_share", 0.032),
        ("cpum_cf_z14", Z14, "walk_cycles", 80),
    ],
)
def test_arithmetic_by_hand(
    key: str, counts: Mapping[str, float], formula: str, value: float
) -> None:
    assert evaluate(load_pmu(key).formulas[formula], counts) == pytest.approx(value)


@pytest.mark.parametrize(
    ("key", "name", "spec"),
    [("skl", "walk_active_cycles.load", "skl::DTLB_LOAD_MISSES:WALK_ACTIVE|code:4:0x1001008"),
     ("skl", "sample_fetch_misses",
      "skl::FRONTEND_RETIRED:STLB_MISS:precise=2|code:4:0x1c6:0x15:2"),
     ("tmt", "sample_load_misses", "code:4:0x11d0:0x0:2"),
     ("srf", "walks_completed.load", "code:4:0xe08"),
     ("adl_grt", "cycles", "adl_grt::CPU_CLK_UNHALTED:CORE_P|code:cpu_atom:0x3c|code:4:0x3c"),
     ("amd64_fam19h_zen4", "sample_load_misses", "code:ibs_op:0x80000"),
     ("arm_n1", "sample_load_misses", "code:arm_spe_0:0x200000000:0x20"),
     ("perf", "dtlb_load_misses", "perf::DTLB-LOAD-MISSES|code:3:0x10003"),
     ("perf", "page_faults", "perf::PAGE-FAULTS|code:1:0x2")],
)  # fmt: skip
def test_specification(key: str, name: str, spec: str) -> None:
    assert [event.spec() for event in select(load_pmu(key), [name])] == [spec]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("walk_active_cycles\tload", "walk_cycles\tload", "not an event"),
        ("walk_active_cycles\tload", "walk_active_cycles\tboth", "not an event"),
        ("\t4096\t", "\t4097\t", "not a page size"),
        ("0x1001008", "1001008", "not a hexadecimal number"),
        ("walk_active_cycles\tstore\tNA", "walk_active_cycles\tload\tNA", "is there twice"),
        ("# source_kernel: ", "# source_other: ", "no '# source_kernel:' line"),
        ("# formula_share: min(", "# formula_share: mix(", "not a formula"),
        ("# formula_share: min(", "# formula_share: min(nonsense + ", "no row for nonsense"),
        ("# formula_share:", "# formula_part:", "no formula is called part"),
        ("# fixed: cycles", "# fixed: seconds", "fixed: no row for seconds"),
        ("# counters: 4", "# counters: many", "not a count"),
        ("# cpu_models: 78", "# cpu_models: x78", "invalid literal"),
        ("# generic_itlb_load_misses: walks", "# generic_itlb_load_misses: runs", "not what a"),
        ("# architecture: x86_64\n", "", "no '# architecture:' line"),
    ],
)
def test_a_broken_table_is_named(tmp_path: Path, old: str, new: str, why: str) -> None:
    good = paths.data("events", "skl.tsv").read_text(encoding="utf-8")
    assert old in good
    path = tmp_path / "odd.tsv"
    path.write_text(good.replace(old, new), encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"odd\.tsv") as caught:
        read_pmu(path)
    assert why in str(caught.value)
