# SPDX-License-Identifier: GPL-2.0-or-later
"""A made-up computer for the doctor: its machine, its programs and who is logged in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from builders.tree import MACHINES
from tlbcost.common import paths
from tlbcost.doctor import examination, tools
from tlbcost.doctor.check import Check
from tlbcost.doctor.examination import examine
from tlbcost.system import hints


@dataclass
class Host:
    """A made-up computer: its programs, its C library and who is logged in."""

    monkeypatch: pytest.MonkeyPatch
    folder: Path

    def machine(self, name: str) -> None:
        assert (MACHINES / name).is_dir()
        self.monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / name))

    def root(self, is_root: bool) -> None:
        self.monkeypatch.setattr(examination, "is_root", lambda: is_root)
        self.monkeypatch.setattr(hints, "is_root", lambda: is_root)

    def glibc(self, version: tuple[int, int] | None) -> None:
        self.monkeypatch.setattr(tools, "glibc_version", lambda: version)

    def program(self, name: str, script: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)

    def tool(self, core: bytes) -> None:
        (self.folder / "lib" / "tlbsim-amd64-linux").write_bytes(b"\x7fELF" + core)

    def checks(self) -> dict[str, Check]:
        return {check.name: check for check in examine().checks}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    """Skylake with everything in place, seen by a user with sudo on a system with apt."""
    for name in ("bin", "lib", "libexec", "cache"):
        (tmp_path / name).mkdir()
    made = Host(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.setattr(paths, "valgrind_lib", lambda: tmp_path / "lib")
    monkeypatch.setattr(paths, "libexec", lambda name: tmp_path / "libexec" / name)
    for name in (
        "tlbcost-run", "tlbcost-calibrate", "tlbcost-count", "tlbcost-copies",
    ):  # fmt: skip
        (tmp_path / "libexec" / name).touch(0o755)
    made.program(
        "valgrind", 'case "$*" in *tlbsim*) echo --counts-dir=DIR;; *) echo valgrind-3.19.0;; esac'
    )
    made.program("gnuplot", "echo gnuplot 5.4 patchlevel 4")
    made.program("hugectl", "exit 0")
    made.program("dpkg-query", "echo 2.23-5")
    made.program("sudo", "exit 1")
    made.program("apt-get", "exit 1")
    made.tool(b"\0valgrind-3.19.0\0")
    monkeypatch.setattr(examination.platform, "machine", lambda: "x86_64")
    made.machine("skylake")
    made.root(False)
    made.glibc((2, 36))
    return made
