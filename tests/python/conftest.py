# SPDX-License-Identifier: GPL-2.0-or-later
"""What do all tests share: how made-up examples are tried, and a launcher?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tlbcost.run import process_tree
from tlbcost.run.launch import Launcher
from tlbcost.run.stdin import ProgramInput

# Neither an example nor the making of one has a time limit: both take longer on a busy machine.
# The same examples each time, unless one looks for new ones.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize="TLBCOST_FUZZ_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """An estimate is the model's unless a test asks for more: measuring takes seconds."""
    monkeypatch.setenv("TLBCOST_MEASURE", "no")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a machine that has no file yet."""
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    return tmp_path


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """Runs programs that have nothing to read."""
    with open(os.devnull) as nothing:  # noqa: PTH123
        yield Launcher(tmp_path, ProgramInput(nothing.fileno()))


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """No process that the test started stays. Those of earlier tests do not count."""
    begun = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
    yield
    # Launchers whose owner was killed give their program two seconds.
    deadline = time.monotonic() + 20
    while (left := process_tree.descendants(os.getpid(), begun)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == {}
