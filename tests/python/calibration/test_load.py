# SPDX-License-Identifier: GPL-2.0-or-later
"""Is it known how much others disturbed, and is quiet recognized?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tlbcost.calibration import load
from tlbcost.calibration.load import Load, load_of, wait_for_quiet
from tlbcost.common.formats import SAMPLES
from tlbcost.common.table import Table


def table(**header: str) -> Table:
    return Table("x", header, SAMPLES.columns, (), True)


def test_the_runs_together() -> None:
    found = load_of(
        [
            table(measured_ns="600", waited_ns="100", stolen_ns="NA"),
            table(measured_ns="400", waited_ns="200", stolen_ns="50"),
            table(),
        ]
    )
    assert found == Load(1000, 300, 50)
    assert found.waited_fraction == 0.3
    assert found.stolen_fraction == 0.05
    assert load_of([table()]) == Load(0, None, None)
    assert load_of([table()]).waited_fraction is None


@pytest.mark.parametrize(
    ("found", "disturbed", "reasons"),
    [
        (Load(100, None, None), False, ()),
        (Load(100, 4, 4), False, ()),
        (Load(100, 25, 10), True, ()),
        (Load(1000, 251, 0), True, ("the calibrator waited for a CPU 25 % of the time",)),
        (
            Load(100, None, 12),
            True,
            ("the hypervisor took the CPU 12 % of the time (steal)",),
        ),
    ],
)
def test_what_disturbs(found: Load, disturbed: bool, reasons: tuple[str, ...]) -> None:
    assert (found.disturbed, found.reasons) == (disturbed, reasons)


class Kernel:
    """/proc of a machine whose load changes while it is looked at."""

    def __init__(self, root: Path, running: Sequence[int], stolen: Sequence[int]) -> None:
        self.now = 0.0
        self._folder = root / "proc"
        self._folder.mkdir()
        self._running = list(running)
        self._stolen = list(stolen)
        self._ticks = 1000
        self._stolen_ticks = 0
        self._write()

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._ticks += 100
        self._write()

    def _write(self) -> None:
        running = self._running[min(int(self.now), len(self._running) - 1)]
        stolen = self._stolen[min(int(self.now), len(self._stolen) - 1)]
        self._stolen_ticks += stolen
        text = f"3.00 2.00 1.00 {running + 1}/120 4711\n"
        (self._folder / "loadavg").write_text(text, encoding="ascii")
        idle = self._ticks - self._stolen_ticks
        text = f"cpu  0 0 0 {idle} 0 0 0 {self._stolen_ticks} 0 0\ncpu0 0\n"
        (self._folder / "stat").write_text(text, encoding="ascii")


def waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: Sequence[int], stolen: Sequence[int]
) -> tuple[bool, list[str], float]:
    kernel = Kernel(tmp_path, running, stolen)
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    monkeypatch.setattr(load.time, "sleep", kernel.sleep)
    monkeypatch.setattr(load.time, "monotonic", lambda: kernel.now)
    monkeypatch.setattr(load.os, "cpu_count", lambda: 2)
    said: list[str] = []
    return wait_for_quiet(20, said.append), said, kernel.now


def test_a_free_cpu_is_quiet_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(tmp_path, monkeypatch, [1], [0]) == (True, [], 1.0)


def test_it_waits_until_a_cpu_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, said, took = waited(tmp_path, monkeypatch, [2, 2, 2, 2, 2, 1], [0])
    assert quiet
    assert said == [
        "the machine is busy (load: 2 other runnable tasks on 2 CPUs, steal 0 %): "
        "waiting up to 20 s for quiet"
    ]
    assert 5 <= took <= 7


def test_it_waits_no_longer_than_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet, said, took = waited(tmp_path, monkeypatch, [0], [12])
    assert not quiet
    assert "steal 12 %): waiting up to 20 s" in said[0]
    assert 20 <= took <= 21


def test_a_kernel_that_tells_nothing_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    monkeypatch.setattr(load.time, "sleep", lambda _: None)
    assert wait_for_quiet(20, lambda _: None)
