# SPDX-License-Identifier: GPL-2.0-or-later
"""Which cores can be timed, and is a damaged figure refused?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.machines import machine
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.machines import published_timing
from tlbcost.machines.published_timing import figures_of, published_core
from tlbcost.processors.figures import assumed
from tlbcost.processors.published import cores

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


def test_most_of_their_own_figures_have_a_checked_source() -> None:
    checked = [
        each.verified
        for core in cores()
        if core.core in RENTED
        for each in (*core.levels.values(), *figures_of(core.core).figures.values())
        if each not in assumed().values()
    ]
    assert sum(checked) >= 0.85 * len(checked) > 600


def test_a_damaged_figure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = paths.data("machines", "snb.tsv").read_text(encoding="utf-8")
    (tmp_path / "snb.tsv").write_text(text.replace("core_ghz: 2.9 ", "core_ghz: fast "))
    monkeypatch.setattr(published_timing.paths, "data", lambda _folder, name: tmp_path / name)
    with pytest.raises(TlbcostError, match="core_ghz"):
        figures_of("snb")
