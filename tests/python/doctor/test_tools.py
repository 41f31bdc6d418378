# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the doctor find programs and libraries that lack, or do not fit each other?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.host import Host
from tlbcost.system import hints

THP = "/sys/kernel/mm/transparent_hugepage/enabled"


def test_valgrind_missing(host: Host, tmp_path: Path) -> None:
    (tmp_path / "bin" / "valgrind").unlink()
    checks = host.checks()
    assert checks["valgrind"].state == "missing"
    assert checks["valgrind"].blocks_estimate
    assert checks["valgrind"].command == "sudo apt-get install -y valgrind"
    host.root(True)
    assert host.checks()["valgrind"].command == "apt-get install -y valgrind"
    (tmp_path / "bin" / "apt-get").unlink()
    assert host.checks()["valgrind"].command is None
    host.program("dnf", "exit 1")
    assert host.checks()["valgrind"].command == "dnf install -y valgrind valgrind-tools-devel"


def test_valgrind_that_fails(host: Host) -> None:
    host.program("valgrind", "exit 1")
    check = host.checks()["valgrind"]
    assert check.blocks_estimate
    assert "does not report its version" in check.finding


def test_simulator_built_against_another_valgrind(host: Host) -> None:
    host.tool(b"\0valgrind-3.18.1\0")
    check = host.checks()["tlbsim"]
    assert check.blocks_estimate
    assert check.finding == "built against valgrind 3.18.1, but 3.19.0 is installed"
    assert (check.command or "").endswith("-B simulator")


def test_simulator_that_does_not_start(host: Host) -> None:
    host.program("valgrind", 'case "$*" in *tlbsim*) exit 1;; *) echo valgrind-3.19.0;; esac')
    check = host.checks()["tlbsim"]
    assert check.blocks_estimate
    assert "does not start" in check.finding


def test_simulator_not_built(host: Host, tmp_path: Path) -> None:
    (tmp_path / "lib" / "tlbsim-amd64-linux").unlink()
    check = host.checks()["tlbsim"]
    assert check.blocks_estimate
    assert (check.command or "").startswith("make -C ")


def test_measuring_programs_missing(host: Host, tmp_path: Path) -> None:
    (tmp_path / "libexec" / "tlbcost-run").unlink()
    check = host.checks()["programs"]
    assert check.blocks_estimate
    assert "tlbcost-run not found" in check.finding


def test_installed_without_source_proposes_no_make(host: Host, tmp_path: Path) -> None:
    (tmp_path / "lib" / "tlbsim-amd64-linux").unlink()
    host.monkeypatch.setattr(hints, "source_tree", lambda: None)
    assert host.checks()["tlbsim"].command is None


@pytest.mark.parametrize(
    ("glibc", "hugectl", "state"),
    [((2, 36), "limited", "ok"), ((2, 34), "limited", "limited"), ((2, 31), "ok", "limited")],
)
def test_hugectl_and_glibc(host: Host, glibc: tuple[int, int], hugectl: str, state: str) -> None:
    host.glibc(glibc)
    checks = host.checks()
    assert checks["hugectl"].state == hugectl
    assert "2.23-5" in checks["hugectl"].finding
    assert checks["glibc"].state == state
    # The tunable is proposed only where it exists.
    assert ("GLIBC_TUNABLES" in checks["hugectl"].finding) == (glibc >= (2, 35))


def test_hugectl_is_worth_installing_only_where_it_works(host: Host, tmp_path: Path) -> None:
    (tmp_path / "bin" / "hugectl").unlink()
    assert host.checks()["hugectl"].command is None
    host.glibc((2, 31))
    assert host.checks()["hugectl"].command == "sudo apt-get install -y libhugetlbfs-bin"


def test_other_c_library(host: Host) -> None:
    host.glibc(None)
    assert host.checks()["glibc"].state == "missing"


def test_gnuplot_missing(host: Host, tmp_path: Path) -> None:
    (tmp_path / "bin" / "gnuplot").unlink()
    check = host.checks()["gnuplot"]
    assert not check.blocks_estimate
    assert check.command == "sudo apt-get install -y gnuplot-nox"


def test_library_missing(host: Host) -> None:
    host.monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    check = host.checks()["libraries"]
    assert check.blocks_estimate
    assert "pandas is not installed" in check.finding
