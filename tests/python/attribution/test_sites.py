# SPDX-License-Identifier: GPL-2.0-or-later
"""Code that allocated memory: a real program with the library, whose blocks are made up."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from builders.tree import TREE, there
from tlbcost.attribution import sites
from tlbcost.attribution.document import HUGE_BYTES
from tlbcost.common import document
from tlbcost.common.errors import TlbcostError
from tlbcost.simulator.memory_tables import Block, SiteGain, SourceLocation

MIB, MADV_COLLAPSE = 1 << 20, 25
# The sites of planted.c: their blocks' walks and resident bytes. Freed memory has none.
WALKS = {
    "dense_hot": (700, HUGE_BYTES), "sparse_hot": (250, 131072), "dense_cold": (1, HUGE_BYTES),
    "small_nodes": (50, HUGE_BYTES),
}  # fmt: skip


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    try:
        sites.library()
    except TlbcostError as error:
        pytest.skip(str(error))
    program = tmp_path_factory.mktemp("planted") / "planted"
    words = [
        "cc", "-O2", "-g", "-D_GNU_SOURCE", "-o", str(program), str(TREE / "tests/c/planted.c"),
    ]  # fmt: skip
    subprocess.run(words, check=True)
    return program


def run(program: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    with subprocess.Popen(
        [program], env={**os.environ, **environment}, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        text, _ = process.communicate()
    assert process.returncode == 0
    return process.pid, text


@pytest.fixture(scope="module")
def found(planted: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[SiteGain, ...]:
    """Gains by site, each block of which has its site's walks."""
    folder = tmp_path_factory.mktemp("sites")
    pid, _ = run(planted, sites.recording(folder, {}))
    rows = [row for row in sites._read(folder / f"sites.{pid}")[0] if row.weight]
    places = {place for row in rows for place, _ in sites._places(row)}
    blocks = [Block(HUGE_BYTES, 1, 0, pid, place) for place in sorted(places)]
    owned = sites.read_sites(folder, blocks)

    def with_walks(block: Block, owners: Mapping[tuple[int, int], float]) -> Block:
        most = max(owners, key=lambda key: owners[key])
        site = sites.allocation_site(owned.stacks[most])
        walks, resident = WALKS.get((site and site.function) or "", (0, HUGE_BYTES))
        return replace(block, base_walks=walks, resident_bytes=resident)

    made = [with_walks(*each) for each in zip(blocks, owned.owners, strict=True)]
    return sites.gains(owned, made)


def test_each_site_is_named_with_its_memory(found: tuple[SiteGain, ...]) -> None:
    by_name = {site.site.function: site for site in found}
    assert {*WALKS, "churned"} <= set(by_name)
    dense, sparse = by_name["dense_hot"], by_name["sparse_hot"]
    assert there(dense.site.object).endswith("/planted")
    assert found[0] is dense
    assert dense.allocated_bytes == 128 * MIB
    assert sparse.allocated_bytes == 256 * MIB
    assert dense.gain_fraction > sparse.gain_fraction > by_name["small_nodes"].gain_fraction > 0
    # What huge pages add there is what sparse memory does not use.
    assert sparse.growth_bytes == pytest.approx(240 * MIB, rel=0.05)
    assert (dense.growth_bytes or 0) < 4 * MIB
    # One block at a time; small ones are sampled: 27 MB of nodes, one in 512 KiB.
    assert by_name["churned"].allocated_bytes == 3 * MIB
    assert by_name["small_nodes"].allocated_bytes == pytest.approx(24 * MIB, rel=0.5)


def test_a_plan_has_the_sites_that_save_most_for_the_memory_they_add(
    planted: Path, found: tuple[SiteGain, ...], tmp_path: Path
) -> None:
    def gains(dense: float, sparse: float) -> list[SiteGain]:
        new = {"dense_hot": dense, "sparse_hot": sparse}
        return [
            replace(site, gain_fraction=new.get(site.site.function or "", 0.0)) for site in found
        ]

    both = sites.plan_of(gains(0.7, 0.3), str(planted))
    assert [site.site.function for site in both.sites] == ["dense_hot", "sparse_hot"]
    assert both.growth_bytes == pytest.approx(240 * MIB, rel=0.05)
    plan = sites.plan_of(gains(0.8, 0.2), str(planted))
    assert [site.site.function for site in plan.sites] == ["dense_hot"]
    file = tmp_path / "plan.json"
    file.write_text(document.to_json(plan))
    _, text = run(planted, sites.plan_variables(file))
    assert text.startswith("dense 1 sparse 0 cold 0 ")
    _, text = run(planted, {})
    assert text.startswith("dense 0 sparse 0 cold 0 ")
    file.write_text("{}")
    with pytest.raises(TlbcostError, match="not a plan"):
        sites.plan_variables(file)


def _can_collapse() -> bool:
    """Whether this kernel makes a huge page of memory that is there (Linux 6.1), and has one."""
    memory = mmap.mmap(-1, 4 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = b"1" * len(memory)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % HUGE_BYTES
    try:
        memory.madvise(MADV_COLLAPSE, start, HUGE_BYTES)
    except OSError:
        return False
    return True


def test_small_blocks_of_a_plan_are_copied_to_huge_pages(
    planted: Path, found: tuple[SiteGain, ...], tmp_path: Path
) -> None:
    if not _can_collapse():
        pytest.skip("the kernel collapses no memory (Linux 6.1), or has no huge page")
    file = tmp_path / "plan.json"
    [nodes] = (site for site in found if site.site.function == "small_nodes")
    plan = sites.plan_of([replace(nodes, gain_fraction=1)], str(planted))
    file.write_text(document.to_json(plan))
    _, text = run(planted, sites.plan_variables(file))
    # The heap grows by less than a huge page, so that it has none at first.
    assert text.startswith("dense 0 sparse 0 cold 0 heap ")
    assert int(text.split()[-1]) > 0


def test_a_plan_is_of_one_build(planted: Path, tmp_path: Path) -> None:
    plan = sites.plan_of([SiteGain(SourceLocation(None, None, None, None), 1.0, 1, None, ("1",))],
                         str(planted))  # fmt: skip
    assert plan.growth_bytes is None
    file = tmp_path / "plan.json"
    file.write_text(document.to_json(plan).replace(str(plan.build_id), "00ff"))
    with pytest.raises(TlbcostError, match="another build"):
        sites.plan_variables(file)


def test_a_process_without_the_library_has_no_sites(tmp_path: Path) -> None:
    (tmp_path / "sites.7").write_bytes(b"garbage")
    assert sites._read(tmp_path / "sites.7") == ([], 0)
    blocks = [Block(None, 1, 0, pid, 0) for pid in (7, 8)]
    found = sites.read_sites(tmp_path, blocks)
    assert found.owners == ({}, {})
    assert sites.gains(found, blocks) == ()


def test_a_full_record_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = bytes(sites._NAME_BYTES * sites._NAMES)
    row = sites._ROW.pack(HUGE_BYTES, HUGE_BYTES, HUGE_BYTES, 1, *[0] * 12)
    (tmp_path / "sites.7").write_bytes(sites._HEAD.pack(sites._MAGIC, 5, 0) + names + row)
    sites.read_sites(tmp_path, [Block(None, 1, 0, 7, HUGE_BYTES)])
    assert "4 of 5 allocations did not fit" in capsys.readouterr().err
