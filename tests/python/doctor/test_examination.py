# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the doctor find each gap on made-up machines, and name a command that fixes it?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders.host import Host
from builders.tree import MACHINES, valid
from tlbcost.calibration import file
from tlbcost.calibration.file import write_calibration
from tlbcost.calibration.records import Calibration
from tlbcost.common import paths
from tlbcost.common.document import to_json
from tlbcost.common.errors import TlbcostError
from tlbcost.doctor import examination
from tlbcost.doctor.check import text_of
from tlbcost.doctor.examination import examine
from tlbcost.system.machine import current_machine

THP = "/sys/kernel/mm/transparent_hugepage/enabled"


def test_everything_in_place(host: Host) -> None:
    checks = host.checks()
    assert not [check for check in checks.values() if check.blocks_estimate]
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
    assert "core: AMD Zen 3" in checks["cpu"].finding
    assert "unverified" not in checks["cpu"].finding
    pool = checks["hugetlb 2 MiB"]
    assert pool.state == "limited"
    path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    assert pool.command == f"echo 512 | sudo tee {path}"


def test_virtual_machine_without_counters(host: Host) -> None:
    host.machine("vm-no-pmu")
    checks = host.checks()
    assert checks["hypervisor"].values["hypervisor"] == "kvm"
    assert checks["pmu"].state == "missing"
    assert not checks["pmu"].blocks_estimate
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


def test_cache_that_cannot_be_written(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    host.monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    check = host.checks()["cache"]
    assert check.state == "limited"
    assert "calibrates again" in check.finding


def test_cached_calibration(host: Host) -> None:
    assert host.checks()["calibration"].command == "tlbcost calibrate"
    machine = current_machine()
    folder = file.cache_folder()
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


@pytest.mark.parametrize("details", [False, True])
def test_report_fits_in_80_columns(host: Host, details: bool) -> None:
    for machine in sorted(MACHINES.iterdir()):
        host.machine(machine.name)
        checks = examine().checks
        text = text_of(checks, 80, details=details)
        for line in text.splitlines():
            assert len(line) <= 80 or line.lstrip().startswith("-> ")
        assert text.startswith("'tlbcost estimate' works here.")
        assert details or len(text.splitlines()) <= 24
        assert all(check.name in text for check in checks)


def test_json(host: Host, tmp_path: Path) -> None:
    host.machine("vm-no-pmu")
    document = valid(to_json(examine()), "doctor")
    assert document["estimate_works"] is True
    assert document["tlbcost_version"] == paths.version()
    values = {check["name"]: check["values"] for check in document["checks"]}
    assert values["memory"]["cgroup_limit_bytes"] == 400 << 20
    (tmp_path / "libexec" / "tlbcost-run").unlink()
    assert json.loads(to_json(examine()))["estimate_works"] is False


def test_a_broken_machine_file_is_reported(host: Host) -> None:
    def broken(_: object) -> None:
        raise TlbcostError("emr.tsv: truncated")

    host.monkeypatch.setattr(examination, "published", broken)
    check = host.checks()["cpu"]
    assert check.state == "limited"
    assert "emr.tsv: truncated" in check.finding
