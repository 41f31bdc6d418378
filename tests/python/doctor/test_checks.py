# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the doctor find each gap on made-up machines, and name a command that fixes it?"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tlbcost.calibration import cache
from tlbcost.calibration.file import write_calibration
from tlbcost.calibration.records import Calibration
from tlbcost.commands import doctor as command
from tlbcost.common import paths
from tlbcost.common.errors import TlbcostError
from tlbcost.doctor import checks as doctor
from tlbcost.doctor import countable, tools
from tlbcost.doctor.check import Check
from tlbcost.system import hints
from tlbcost.system.machine import current_machine

MACHINES = Path(__file__).parents[2] / "machines"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"


@dataclass
class Host:
    """A made-up computer: its programs, its C library and who is logged in."""

    monkeypatch: pytest.MonkeyPatch
    folder: Path

    def machine(self, name: str) -> None:
        assert (MACHINES / name).is_dir()
        self.monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / name))

    def root(self, is_root: bool) -> None:
        self.monkeypatch.setattr(countable, "is_root", lambda: is_root)
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
        return {check.name: check for check in doctor.examine()}


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
    for name in ("tlbcost-run", "tlbcost-calibrate", "tlbcost-count", "tlbcost-record"):
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
    made.machine("skylake")
    made.root(False)
    made.glibc((2, 36))
    return made


def test_everything_in_place(host: Host) -> None:
    checks = host.checks()
    assert not [check for check in checks.values() if check.blocks]
    assert not [check for check in checks.values() if check.state == "missing"]
    assert "core: Intel Skylake client" in checks["cpu"].finding
    assert checks["hypervisor"].finding == "none seen"
    assert checks["pmu"].state == "ok"
    assert "opening a counter was not tried" in checks["pmu"].finding
    assert checks["valgrind"].values["valgrind_version"] == "3.19.0"
    assert checks["tlbsim"].state == "ok"
    assert checks["thp"].finding.startswith("always (defrag madvise, shmem never")
    assert "may already run on huge pages" in checks["thp"].finding
    assert checks["hugetlb 2 MiB"].finding == "64 pages, 60 free"
    assert checks["hugetlb 1 GiB"].state == "ok"
    assert checks["memory"].values["available_bytes"] == 24576000 * 1024
    assert checks["cache"].state == "ok"


def test_zen3(host: Host) -> None:
    host.machine("zen3")
    checks = host.checks()
    assert "core: AMD Zen 3; some of its published TLB sizes are unverified" in (
        checks["cpu"].finding
    )
    pool = checks["hugetlb 2 MiB"]
    assert pool.state == "limited"
    path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    assert pool.command == f"echo 512 | sudo tee {path}"


def test_virtual_machine_without_counters(host: Host) -> None:
    host.machine("vm-no-pmu")
    checks = host.checks()
    assert checks["hypervisor"].values["hypervisor"] == "kvm"
    assert checks["pmu"].state == "missing"
    assert not checks["pmu"].blocks
    assert checks["pmu"].command is None
    assert checks["memory"].state == "limited"
    assert checks["memory"].values["cgroup_limit_bytes"] == 400 << 20
    # The pool that is proposed leaves the machine most of its free memory.
    assert (checks["hugetlb 2 MiB"].command or "").startswith("echo 183 | sudo tee")


@pytest.mark.parametrize(
    ("is_root", "state", "expected"),
    [
        (False, "limited", "echo 2 | sudo tee /proc/sys/kernel/perf_event_paranoid"),
        (True, "ok", None),
    ],
)
def test_paranoid(host: Host, is_root: bool, state: str, expected: str | None) -> None:
    host.machine("paranoid-3")
    host.root(is_root)
    check = host.checks()["perf_event_paranoid"]
    assert (check.state, check.command) == (state, expected)


def test_kernel_without_transparent_huge_pages(host: Host) -> None:
    host.machine("no-thp")
    check = host.checks()["thp"]
    assert (check.state, check.command) == ("missing", None)
    assert check.values["thp_mode"] is None


def test_thp_never(host: Host, tmp_path: Path) -> None:
    (tmp_path / "made" / THP.lstrip("/")).parent.mkdir(parents=True)
    (tmp_path / "made" / THP.lstrip("/")).write_text("always madvise [never]\n", encoding="utf-8")
    host.monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path / "made"))
    check = host.checks()["thp"]
    assert (check.state, check.command) == ("limited", f"echo madvise | sudo tee {THP}")
    host.root(True)
    assert host.checks()["thp"].command == f"echo madvise > {THP}"
    host.root(False)
    (tmp_path / "bin" / "sudo").unlink()
    assert host.checks()["thp"].command == f"su -c 'echo madvise > {THP}'"


def test_ancient_kernel(host: Host) -> None:
    host.machine("ancient")
    checks = host.checks()
    assert "Intel Core 2" in checks["cpu"].finding
    assert checks["perf_event_paranoid"].state == "missing"
    assert checks["thp"].state == "missing"
    assert checks["hugetlb"].state == "missing"
    assert checks["memory"].values["available_bytes"] is None


def test_large_base_pages(host: Host) -> None:
    host.machine("aarch64-64k")
    checks = host.checks()
    assert "64 KiB pages; core: Arm Neoverse N1" in checks["cpu"].finding
    assert "armv8_pmuv3_0 is there" in checks["pmu"].finding
    # One quarter of the free memory, at most 1 GiB: two pages of 512 MiB.
    assert (checks["hugetlb 512 MiB"].command or "").startswith("echo 2 |")
    assert checks["hugetlb 2 MiB"].state == "ok"


def test_empty_root_is_survived(host: Host, tmp_path: Path) -> None:
    host.monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path / "nothing"))
    checks = host.checks()
    assert checks["cpu"].state == "limited"
    assert "not on file" in checks["cpu"].finding


def test_valgrind_missing(host: Host, tmp_path: Path) -> None:
    (tmp_path / "bin" / "valgrind").unlink()
    checks = host.checks()
    assert checks["valgrind"].state == "missing"
    assert checks["valgrind"].blocks
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
    assert check.blocks
    assert "does not tell its version" in check.finding


def test_simulator_built_against_another_valgrind(host: Host) -> None:
    host.tool(b"\0valgrind-3.18.1\0")
    check = host.checks()["tlbsim"]
    assert check.blocks
    assert check.finding == "built against valgrind 3.18.1, but 3.19.0 is installed"
    assert (check.command or "").endswith("-B simulator")


def test_simulator_that_does_not_start(host: Host) -> None:
    host.program("valgrind", 'case "$*" in *tlbsim*) exit 1;; *) echo valgrind-3.19.0;; esac')
    check = host.checks()["tlbsim"]
    assert check.blocks
    assert "does not start" in check.finding


def test_simulator_not_built(host: Host, tmp_path: Path) -> None:
    (tmp_path / "lib" / "tlbsim-amd64-linux").unlink()
    check = host.checks()["tlbsim"]
    assert check.blocks
    assert (check.command or "").startswith("make -C ")


def test_measuring_programs_missing(host: Host, tmp_path: Path) -> None:
    (tmp_path / "libexec" / "tlbcost-run").unlink()
    check = host.checks()["programs"]
    assert check.blocks
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
    assert not check.blocks
    assert check.command == "sudo apt-get install -y gnuplot-nox"


def test_cache_that_cannot_be_written(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    host.monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    check = host.checks()["cache"]
    assert check.state == "limited"
    assert "calibrates anew" in check.finding


def test_cached_calibration(host: Host) -> None:
    assert host.checks()["calibration"].command == "tlbcost calibrate"
    machine = current_machine()
    folder = cache.cache_folder()
    folder.mkdir(parents=True, exist_ok=True)

    def keep(name: str, made: Calibration) -> None:
        write_calibration(folder / f"calibration-{name}.tsv", made)

    other = replace(machine, cpu_name="Another CPU")
    keep("000000000000", Calibration(other, "2026-01-02T03:04:05Z", "0.1", 9.5, ()))
    (folder / "calibration-111111111111.tsv").write_text("garbage\n", encoding="utf-8")
    check = host.checks()["calibration"]
    assert check.state == "limited"
    assert "found one of Another CPU, 2026-01-02T03:04:05Z and an unreadable one" in check.finding
    keep("222222222222", Calibration(machine, "2026-02-03T04:05:06Z", "0.1", 9.5, ()))
    check = host.checks()["calibration"]
    assert check.state == "ok"
    assert check.values["calibration_date"] == "2026-02-03T04:05:06Z"


def test_report_fits_in_80_columns(host: Host) -> None:
    for machine in sorted(MACHINES.iterdir()):
        host.machine(machine.name)
        text = command.report(doctor.examine())
        for line in text.splitlines():
            assert len(line) <= 80 or line.lstrip().startswith("-> ")
        assert text.endswith("'tlbcost estimate' works here.")


def test_json(host: Host, tmp_path: Path) -> None:
    host.machine("vm-no-pmu")
    document = json.loads(command.json_text(doctor.examine()))
    assert document["estimate_works"] is True
    assert document["tlbcost_version"] == paths.version()
    values = {check["name"]: check["values"] for check in document["checks"]}
    assert values["memory"]["cgroup_limit_bytes"] == 400 << 20
    (tmp_path / "bin" / "valgrind").unlink()
    assert json.loads(command.json_text(doctor.examine()))["estimate_works"] is False


def test_pmu_is_really_tried_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TLBCOST_ROOT", raising=False)
    from tlbcost.counters.pmu import find_pmu

    pmu = find_pmu()
    assert pmu.answer in ("counts", "silent", "forbidden", "absent", "unknown", "listed")
    assert "perf_event_open" in pmu.how or pmu.answer in ("listed", "absent")


def test_a_broken_machine_file_is_told(host: Host) -> None:
    def broken(_: object) -> None:
        raise TlbcostError("emr.tsv: truncated")

    host.monkeypatch.setattr(doctor, "published", broken)
    check = host.checks()["cpu"]
    assert check.state == "limited"
    assert "emr.tsv: truncated" in check.finding


def test_library_missing(host: Host) -> None:
    host.monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    check = host.checks()["libraries"]
    assert check.blocks
    assert "pandas is not installed" in check.finding
