# SPDX-License-Identifier: GPL-2.0-or-later
"""Is what the kernel counts of huge pages read, and distinguished from what it does not count?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tlbcost.system import huge_pages


def test_counters_that_are_not_there_are_not_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert huge_pages.mthp_bytes() is None
    assert huge_pages.fallbacks() is None
    folder = tmp_path / "sys/kernel/mm/transparent_hugepage"
    (folder / "hugepages-64kB/stats").mkdir(parents=True)
    (folder / "hpage_pmd_size").write_text("2097152\n")
    assert huge_pages.mthp_bytes() is None
    (folder / "hugepages-64kB/stats/nr_anon").write_text("3\n")
    assert huge_pages.mthp_bytes() == {65536: 3 * 65536}
    assert huge_pages.grown({65536: 65536}, huge_pages.mthp_bytes()) == {65536: 2 * 65536}
