# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a calibration read from its file as it was written?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.calibration import of_this_machine
from tlbcost.calibration.file import cache_folder, cache_path, read_calibration, write_calibration
from tlbcost.system.machine import current_machine


def test_written_and_read_it_is_the_same(tmp_path: Path) -> None:
    write_calibration(tmp_path / "c.tsv", of_this_machine())
    assert read_calibration(tmp_path / "c.tsv") == of_this_machine()


def test_a_quantitys_earlier_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.tsv"
    write_calibration(path, of_this_machine())
    text = path.read_text()
    path.write_text(text.replace("l3_half_life_ns", "l3_stay_ns"))
    assert path.read_text() != text
    assert read_calibration(path) == of_this_machine()


def test_machines_have_caches_of_their_own() -> None:
    machine = current_machine()
    assert cache_path(machine) == cache_path(machine)
    for change in ({"microcode": "x"}, {"kernel": "x"}, {"thp_mode": None}, {"governor": "x"}):
        assert cache_path(replace(machine, **change)) != cache_path(machine)


def test_the_cache_is_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "tlbcost"
