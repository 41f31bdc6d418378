# SPDX-License-Identifier: GPL-2.0-or-later
"""Which memory limit holds, on made-up machines?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tlbcost.system import cgroup


def machine(root: Path, cgroups: str, mounts: str, files: dict[str, str]) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroups)
    (root / "proc/self/mountinfo").write_text(mounts)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(
        tmp_path,
        "4:memory:/a/b\n0::/\n",
        "30 20 0:26 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n",
        {
            "sys/fs/cgroup/memory/a/b/memory.oom_control": "oom_kill_disable 0\noom_kill 2\n",
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "419430400\n",
        },
    )
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert cgroup.memory_limit() == cgroup.MemoryLimit(2, 400 << 20)


def test_version_2_in_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(
        tmp_path,
        "0::/docker/x/job\n",
        "30 20 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
        {
            "sys/fs/cgroup/job/memory.events": "low 0\noom 1\noom_kill 1\n",
            "sys/fs/cgroup/job/memory.max": "max\n",
        },
    )
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert cgroup.memory_limit() == cgroup.MemoryLimit(1, None)


def test_no_cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert cgroup.memory_limit() == cgroup.MemoryLimit(None, None)
