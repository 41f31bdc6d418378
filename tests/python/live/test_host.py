# SPDX-License-Identifier: GPL-2.0-or-later
"""Is what the host has on huge pages read, and whether its /proc hides processes?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tlbcost.live.host import HostReader, hides_processes


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    (tmp_path / "proc" / "self").mkdir(parents=True)
    return tmp_path / "proc"


def test_figures_and_the_rate_of_fallbacks(proc: Path) -> None:
    meminfo = "MemTotal: 1000 kB\nAnonHugePages: 4 kB\nShmemHugePages: 8 kB\n"
    (proc / "meminfo").write_text(meminfo)
    (proc / "vmstat").write_text("thp_fault_fallback 10\n")
    reader = HostReader()
    first = reader.read()
    assert (first.memory_bytes, first.thp_bytes) == (1000 << 10, 12 << 10)
    assert first.available_bytes is first.fallback_rate is None
    (proc / "vmstat").write_text("thp_fault_fallback 30\n")
    rate = reader.read().fallback_rate
    assert rate is not None
    assert rate > 0


def test_nothing_is_known(proc: Path) -> None:  # noqa: ARG001
    host = HostReader().read()
    assert host.memory_bytes is host.thp_bytes is host.thp_mode is host.fallback_rate is None
    assert host.pools == ()


@pytest.mark.parametrize(
    ("options", "root", "hides"),
    [
        (["rw,hidepid=2"], False, True),
        (["rw,hidepid=invisible,gid=7"], False, True),
        (["rw,hidepid=2"], True, False),
        (["rw,hidepid=1"], False, False),
        (["rw,hidepid=2", "rw"], False, False),
        (["rw", "rw,hidepid=4"], False, True),
        ([], False, False),
    ],
)
def test_hidden_processes(proc: Path, options: list[str], root: bool, hides: bool) -> None:
    lines = [f"22 1 0:20 / /proc rw,nosuid - proc proc {each}\n" for each in options]
    (proc / "self" / "mountinfo").write_text("20 1 0:9 / / rw - ext4 /dev/x rw\n" + "".join(lines))
    if root:
        (proc / "1").mkdir()
        (proc / "1" / "stat").write_text("1 (init) S\n")
    assert hides_processes() is hides
