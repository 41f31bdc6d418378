# SPDX-License-Identifier: GPL-2.0-or-later
"""Counters that are made up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import tlbcost
from builders.counting import CountingMachine
from builders.tree import FAKES
from tlbcost.common import paths
from tlbcost.run.launch import Launcher
from tlbcost.run.stdin import ProgramInput


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingMachine]:
    monkeypatch.setattr(paths, "libexec", lambda name: FAKES / name)
    # The fake runs by the system's Python, which knows nothing of tlbcost.
    monkeypatch.setenv("PYTHONPATH", str(Path(tlbcost.__file__).parents[1]))
    monkeypatch.setenv("FAKE_COUNTERS", str(tmp_path / "fake.json"))
    monkeypatch.delenv("TLBCOST_ROOT", raising=False)
    with open(os.devnull) as nothing:  # noqa: PTH123
        yield CountingMachine(tmp_path, Launcher(tmp_path, ProgramInput(nothing.fileno())))
