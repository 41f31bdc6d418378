# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the doctor tell whether programs can be followed in copies, and whose?"""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from builders.host import Host
from tlbcost.doctor import examination
from tlbcost.doctor.check import Check, text_of
from tlbcost.system import hints

SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
ALL, NONE = "0000003fffffffff", "0000000000000000"
ALL_BUT_PTRACE = f"{0x3FFFFFFFFF & ~(1 << 19):016x}"


@pytest.fixture
def yama(host: Host, tmp_path: Path) -> Host:
    """A host on which the kernel's answers can be made up."""
    (tmp_path / "made/proc/sys/kernel/yama").mkdir(parents=True)
    (tmp_path / "made/proc/self").mkdir()
    host.monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path / "made"))
    return host


def checked(yama: Host, tmp_path: Path, scope: str | None, capabilities: str) -> Check:
    if scope is not None:
        (tmp_path / "made" / SCOPE.lstrip("/")).write_text(f"{scope}\n", encoding="ascii")
    status = f"Name:\tx\nCapEff:\t{capabilities}\n"
    (tmp_path / "made/proc/self/status").write_text(status, encoding="ascii")
    return yama.checks()["copies"]


@pytest.mark.parametrize(
    ("scope", "capabilities", "is_root", "traceable", "words"),
    [
        (None, NONE, False, "own", "(--pid) of your own processes"),
        ("0", NONE, False, "own", "(--pid) of your own processes"),
        (None, ALL, True, "all", "(--pid) of every process"),
        ("1", ALL, True, "all", "(--pid) of every process"),
        ("2", ALL, True, "all", "(--pid) of every process"),
        ("1", NONE, False, "launched", "running processes (--pid) need root"),
        ("2", NONE, False, "none", "kernel.yama.ptrace_scope is 2: only root may trace"),
        ("3", NONE, False, "none", "no process may trace until the next boot"),
        ("3", ALL, True, "none", "no process may trace until the next boot"),
        ("0", ALL_BUT_PTRACE, True, "own", "docker run --cap-add SYS_PTRACE"),
    ],
)
def test_whose_processes_can_be_copied(
    yama: Host,
    tmp_path: Path,
    scope: str | None,
    capabilities: str,
    is_root: bool,
    traceable: str,
    words: str,
) -> None:
    yama.root(is_root)
    check = checked(yama, tmp_path, scope, capabilities)
    assert check.values["traceable"] == traceable
    assert check.values["ptrace_scope"] == (None if scope is None else int(scope))
    assert words in check.finding
    assert not check.blocks_estimate
    assert check.state == ("ok" if "(--pid) of" in words else "limited")


def test_the_setting_is_what_is_to_be_typed(yama: Host, tmp_path: Path) -> None:
    assert checked(yama, tmp_path, "1", NONE).command == f"echo 0 | sudo tee {SCOPE}"
    # Enough for programs that tlbcost runs.
    assert checked(yama, tmp_path, "2", NONE).command == f"echo 1 | sudo tee {SCOPE}"
    assert checked(yama, tmp_path, "3", NONE).command is None
    assert checked(yama, tmp_path, "0", NONE).command is None


def test_a_seccomp_filter_is_inherited_by_what_is_run(yama: Host, tmp_path: Path) -> None:
    check = checked(yama, tmp_path, None, f"{ALL}\nSeccomp:\t2")
    assert (check.state, check.values["seccomp_filter"]) == ("limited", "yes")
    assert "docker run --security-opt seccomp=unconfined" in check.finding
    assert checked(yama, tmp_path, None, f"{ALL}\nSeccomp:\t0").state == "ok"


def test_copies_that_were_not_built(host: Host, tmp_path: Path) -> None:
    (tmp_path / "libexec" / "tlbcost-copies").unlink()
    check = host.checks()["copies"]
    assert check.state == "missing"
    assert not check.blocks_estimate
    assert "Zydis (libzydis) was missing: programs run in Valgrind instead" in check.finding
    install, _, make = (check.command or "").partition(" && ")
    assert install == "sudo apt-get install -y libzydis-dev"
    assert make.startswith("make -C ")
    host.monkeypatch.setattr(hints, "source_tree", lambda: None)
    assert host.checks()["copies"].command is None


def test_another_architecture(host: Host) -> None:
    host.monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    check = host.checks()["copies"]
    assert (check.state, check.command) == ("missing", None)
    assert check.finding.startswith("only on x86-64, not on aarch64: programs run in Valgrind")


def test_a_root_that_lacks_the_capability_is_known_by_its_status(host: Host) -> None:
    # The made-up machine does not say: then being root decides.
    host.root(True)
    assert host.checks()["copies"].values["cap_sys_ptrace"] == "yes"
    host.root(False)
    assert host.checks()["copies"].values["cap_sys_ptrace"] == "no"


@pytest.mark.parametrize("scope", ["0", "1", "2", "3"])
def test_the_finding_fits_in_80_columns(yama: Host, tmp_path: Path, scope: str) -> None:
    check = checked(yama, tmp_path, scope, NONE)
    for line in text_of([check], 80, details=True).splitlines():
        assert len(line) <= 80 or line.lstrip().startswith("-> ")


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TLBCOST_ROOT", raising=False)
    check = examination.check_copies(platform.machine())
    real = Path(SCOPE)
    if check.state != "missing":
        assert check.values["ptrace_scope"] == (
            int(real.read_text(encoding="ascii")) if real.exists() else None
        )
