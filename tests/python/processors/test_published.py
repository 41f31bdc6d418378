# SPDX-License-Identifier: GPL-2.0-or-later
"""Is every row of data/machines usable, and does every CPU model lead to one core?"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import MACHINE, TableFormat, read_table
from tlbcost.processors.published import (
    LEVELS,
    PublishedCore,
    cores,
    figures_in,
    published,
    read_core,
)
from tlbcost.system.machine import Machine

FILES = sorted(paths.data("machines").glob("*.tsv"))
CPUID_TLBS = TableFormat(
    "cpuid_tlbs", 1, ("core", "cpu", "level", "page_size_bytes", "entries", "ways")
)
TREE = Path(__file__).parents[3]
NOBODY = Machine(None, None, None, None, None, None, None, None, 4096, None, None)


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def core(request: pytest.FixtureRequest) -> PublishedCore:
    return read_core(request.param)


def test_every_level_is_positive_and_made_of_whole_sets(core: PublishedCore) -> None:
    for level in core.levels.values():
        if level.entries is None:
            assert level.ways is None
            continue
        assert level.entries > 0
        if level.ways is not None:
            assert level.ways > 0
            assert level.entries % level.ways == 0


def test_first_levels_cover_the_same_page_sizes(core: PublishedCore) -> None:
    def sizes(level: str) -> set[int]:
        return {size for name, size in core.levels if name == level}

    assert sizes("dtlb") >= sizes("itlb")
    assert sizes("dtlb") >= sizes("stlb")
    assert len(sizes("itlb")) >= 2
    for size in sizes("dtlb"):
        assert size >= 4096
        assert size & (size - 1) == 0


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_guess_is_a_range_and_a_checked_figure_is_not(path: Path) -> None:
    for name, figure in figures_in(read_table(path, MACHINE)).items():
        assert figure.low <= figure.value <= figure.high, name
        assert figure.verified == (figure.low == figure.high), name
        assert not (figure.verified and "memory" in figure.source.split("+")), name
    for (level, size), row in read_core(path).levels.items():
        assert row.verified == (row.source != "memory")
        if row.entries is None:
            assert (row.low, row.high, row.verified) == (None, None, False)
        elif row.verified:
            assert row.low == row.high == row.entries
        else:
            assert row.low is not None, (level, size)
            assert row.high is not None
            assert row.low <= row.entries <= row.high


def test_what_contradicts_cpuid_is_said() -> None:
    known = {core.core: core for core in cores()}
    table = read_table(paths.data("cpuid_tlbs.tsv"), CPUID_TLBS)
    assert len(table.records()) > 100
    differing: dict[str, set[str]] = {}
    for row in table.records():
        core, level, size = str(row["core"]), str(row["level"]), int(str(row["page_size_bytes"]))
        found = next(
            (each for key, each in known[core].levels.items() if key == (level, size)), None
        )
        ways = None if row["ways"] is None or found is None else found.ways
        same = found is not None and found.entries == int(str(row["entries"]))
        if not same or ways != (None if row["ways"] is None else int(row["ways"])):
            differing.setdefault(core, set()).add(f"{level} {size}")
    for core in known:
        header = read_table(paths.data("machines", f"{core}.tsv"), MACHINE).header
        said = header.get("cpuid_differs", "")
        assert {each for each in said.split(",") if each} == differing.get(core, set()), core


def test_ice_lake_has_two_arrays_that_base_pages_may_be_in() -> None:
    client = next(core for core in cores() if core.core == "tgl")
    base, huge, gib = (client.levels["stlb", size] for size in (4 << 10, 2 << 20, 1 << 30))
    assert (base.entries, base.ways) == (2048, 16)
    assert [(row.entries, row.ways) for row in (huge, gib)] == [(1024, 8)] * 2
    assert client.shares("stlb", 4 << 10) == (2 << 20, 1 << 30)
    assert client.shares("stlb", 2 << 20) == (4 << 10,)
    assert client.shares("dtlb", 4 << 10) == ()


def test_the_documented_example_is_a_core(tmp_path: Path) -> None:
    text = (TREE / "doc/machines.md").read_text(encoding="utf-8")
    example = text.partition("For example, Rocket Lake")[2]
    _, new, prose = example.split("```", 2)
    changed = dict(line[2:].split(": ", 1) for line in new.split("\n") if line)
    dropped = re.findall(r"`(\w+)`", prose.partition(", which no figure")[0])
    lines = []
    for line in paths.data("machines", "icl.tsv").read_text(encoding="utf-8").splitlines():
        key = line[2:].partition(": ")[0]
        if line.startswith("# ") and key in changed:
            lines.append(f"# {key}: {changed.pop(key)}")
        elif key not in dropped:
            lines.append(line)
    assert not changed
    path = tmp_path / "rkl.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read_core(path).processors.models == frozenset({167})
    figures = figures_in(read_table(path, MACHINE))
    assert (figures["l3_cycles"].value, figures["memory_ns"].value) == (52, 70)
    assert set(figures) == set(figures_in(read_table(paths.data("machines", "icl.tsv"), MACHINE)))
    test_a_guess_is_a_range_and_a_checked_figure_is_not(path)
    test_sources_are_explained_and_used(path)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_sources_are_explained_and_used(path: Path) -> None:
    table = read_table(path, MACHINE)
    cells = [str(row["source"]) for row in table.records()]
    cells += [text.split()[1] for key, text in table.header.items() if key.startswith("core_")]
    used = {f"source_{key}" for cell in cells for key in cell.split("+")}
    explained = {key for key in table.header if key.startswith("source_")}
    assert used == explained
    assert {row["level"] for row in table.records()} <= set(LEVELS)


def test_no_model_is_claimed_by_two_cores() -> None:
    owners: dict[tuple[str | None, int | None, int], str] = {}
    for core in cores():
        assert core.processors.models
        for model in core.processors.models:
            key = core.processors.vendor, core.processors.family, model
            assert key not in owners, f"{key}: {core.core} and {owners[key]}"
            owners[key] = core.core


@pytest.mark.parametrize(
    ("vendor", "family", "model", "expected"),
    [("GenuineIntel", "6", "207", "emr"), ("GenuineIntel", "6", "143", "spr"),
     ("GenuineIntel", "6", "85", "skx"), ("GenuineIntel", "6", "94", "skl"),
     ("GenuineIntel", "6", "140", "tgl"), ("GenuineIntel", "6", "126", "icl"),
     ("GenuineIntel", "6", "42", "snb"), ("GenuineIntel", "6", "15", "core2"),
     ("GenuineIntel", "15", "4", None), ("AuthenticAMD", "25", "33", "amd64_fam19h_zen3"),
     ("AuthenticAMD", "25", "17", "amd64_fam19h_zen4"),
     ("AuthenticAMD", "23", "49", "amd64_fam17h_zen2"),
     ("AuthenticAMD", "26", "2", "amd64_fam1ah_zen5"), ("0x41", "8", "0xd0c", "arm_n1"),
     ("0x46", "8", "0x001", "arm_a64fx"), ("IBM", None, "0x4e", "power9"),
     ("GenuineIntel", "6", "9999", None), ("GenuineIntel", "6", "what", None),
     (None, "6", "207", None)],
)  # fmt: skip
def test_look_up(
    vendor: str | None, family: str | None, model: str | None, expected: str | None
) -> None:
    found = published(replace(NOBODY, cpu_vendor=vendor, cpu_family=family, cpu_model=model))
    assert (found.core if found else None) == expected


def test_power_is_found_by_its_processor_version() -> None:
    found = published(replace(NOBODY, cpu_stepping="2.2 (pvr 004e 1202)", cpu_model="9006-22P"))
    assert found is not None
    assert found.core == "power9"


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.tsv"
    good = FILES[0].read_text(encoding="utf-8")
    path.write_text(good.replace("dtlb\t4096", "l9\t4096"), encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"odd\.tsv: not a level of a TLB"):
        read_core(path)
    path.write_text(good.replace("# cpu_models: ", "# cpu_models: x"), encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"odd\.tsv"):
        read_core(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("dtlb\t4096\t64\t4\tNA\tmemory\tno\tNA", "not a range around 64: none"),
        ("dtlb\t4096\t64\t4\tNA\tmemory\tno\t70..80", "not a range around 64: 70..80"),
        ("dtlb\t4096\t64\t4\tNA\tilx_tgl\tyes\t32..64", "a verified figure has no range"),
        ("dtlb\t4096\t64\t4\tNA\tnobody\tyes\tNA", "source_nobody"),
        ("stlb\t4096\t64\t4\tNA\tilx_tgl\tyes\tNA", "is there twice"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "odd.tsv"
    text = paths.data("machines", "tgl.tsv").read_text(encoding="utf-8")
    path.write_text(text.replace("dtlb\t4096\t64\t4\tNA\tilx_tgl\tyes\tNA", line), encoding="utf-8")
    with pytest.raises(TlbcostError, match=words):
        read_core(path)
