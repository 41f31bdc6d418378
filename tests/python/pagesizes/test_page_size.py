# SPDX-License-Identifier: GPL-2.0-or-later
"""How does a program get pages of each size, and why not?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.page_times import BASE, GIGANTIC
from tlbcost.pagesizes.page_size import PageSupply, Shortage, supply_of
from tlbcost.pagesizes.patterns import GIB


def test_sizes_that_a_kernel_has_or_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    monkeypatch.setattr("tlbcost.system.hints.is_root", lambda: False)
    thp = tmp_path / "sys/kernel/mm/transparent_hugepage"
    pool = tmp_path / "sys/kernel/mm/hugepages/hugepages-1048576kB"
    for folder in (thp / "hugepages-64kB", thp / "hugepages-2048kB", pool):
        folder.mkdir(parents=True)
    for size in (64, 2048):
        (thp / f"hugepages-{size}kB/enabled").write_text("always inherit madvise [never]\n")
    (thp / "enabled").write_text("always [madvise] never\n")
    (thp / "hpage_pmd_size").write_text("2097152\n")
    (pool / "free_hugepages").write_text("0\n")
    assert supply_of(4096, 4096) == BASE
    assert supply_of(2 << 20, 4096) == PageSupply(2 << 20, "transparent")
    for size, reason in (
        (GIB, "the pool of 1 GiB pages is empty, and only root can fill it"),
        (64 << 10, "transparent pages of 64 KiB are off, and only root can turn them on"),
        (1 << 20, "this kernel has no pages of 1 MiB"),
    ):
        found = supply_of(size, 4096)
        assert isinstance(found, Shortage)
        assert found.reason.startswith(reason)
        assert found.hint
    (pool / "free_hugepages").write_text("3\n")
    assert supply_of(GIB, 4096) == GIGANTIC
    (thp / "enabled").write_text("always madvise [never]\n")
    assert isinstance(supply_of(2 << 20, 4096), Shortage)
