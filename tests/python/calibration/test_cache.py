# SPDX-License-Identifier: GPL-2.0-or-later
"""Where is the calibration of a machine kept?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tlbcost.calibration.cache import cache_folder, cache_path
from tlbcost.system.machine import current_machine


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
