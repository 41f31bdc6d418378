# SPDX-License-Identifier: GPL-2.0-or-later
"""Does doctor report what can be counted or copied here, and find tools that lack?"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.counting import ACTIVE, COMPLETED, write_rights
from builders.host import Host
from builders.tree import MACHINES
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.event_counts import Refusal
from tlbcost.counters.pmu import Found
from tlbcost.doctor import examination
from tlbcost.doctor.check import Check
from tlbcost.system import hints
from tlbcost.system.machine import current_machine


def opened(*names: str) -> Callable[..., list[Refusal]]:
    def probe(_: object, events: list[object]) -> list[Refusal]:
        return [
            Refusal(event.name, "counted" if event.name in names else "unsupported", None)  # type: ignore[attr-defined]
            for event in events
        ]

    return probe


@pytest.mark.parametrize(
    ("events", "state", "words"),
    [
        (("cycles", *ACTIVE), "ok", "counts the cycles with a page walk; 4 events, 4 at a time"),
        (("cycles", *COMPLETED), "ok", "counts page walks; 4 events"),
        (("cycles", "instructions"), "limited", "counts 2 events, none of them of page walks"),
    ],
)
def test_doctor_tells_what_is_counted(
    monkeypatch: pytest.MonkeyPatch, events: tuple[str, ...], state: str, words: str
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "skylake"))
    monkeypatch.setattr(examination, "find_pmu", lambda: Found("counts", "it counts"))
    monkeypatch.setattr(examination, "probe", opened(*events))
    check = examination.check_pmu(current_machine())
    assert check.state == state
    assert words in check.finding
    assert check.values["event_table"] == "skl"
    assert check.values["counters"] == 4
    assert set(str(check.values["countable_events"]).split(", ")) == set(events)


def test_doctor_survives_a_missing_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> list[Refusal]:
        raise TlbcostError("cannot run tlbcost-count: No such file or directory")

    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "skylake"))
    monkeypatch.setattr(examination, "find_pmu", lambda: Found("counts", "it counts"))
    monkeypatch.setattr(examination, "probe", broken)
    check = examination.check_pmu(current_machine())
    assert check.state == "limited"
    assert "it counts, but cannot run tlbcost-count" in check.finding


@pytest.mark.parametrize(
    ("level", "may", "state", "words"),
    [("-1", None, "ok", "the whole system"), ("0", None, "ok", "the whole system"),
     ("1", None, "ok", "their own programs"), ("2", None, "ok", "their own programs in user mode"),
     ("3", True, "ok", "here like 2"), ("3", False, "limited", "only root may count"),
     ("4", None, "limited", "only root may count")],
)  # fmt: skip
def test_doctor_tells_who_may_count(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    level: str,
    may: bool | None,
    state: str,
    words: str,
) -> None:
    write_rights(tmp_path, "", None, level)
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    monkeypatch.setattr(examination, "is_root", lambda: False)
    monkeypatch.setattr(examination, "user_may_count", lambda: may)
    check = examination.check_paranoid()
    assert check.state == state
    assert words in check.finding
    assert (check.command is not None) == (state == "limited")


def test_valgrind_missing(host: Host, tmp_path: Path) -> None:
    (tmp_path / "bin" / "valgrind").unlink()
    checks = host.checks()
    assert checks["valgrind"].state == "missing"
    # Copies, and pairs of runs, do without.
    assert not checks["valgrind"].blocks_estimate
    assert checks["valgrind"].command == "sudo apt-get install -y valgrind"
    host.root(True)
    assert host.checks()["valgrind"].command == "apt-get install -y valgrind"
    (tmp_path / "bin" / "apt-get").unlink()
    assert host.checks()["valgrind"].command is None
    host.program("dnf", "exit 1")
    assert host.checks()["valgrind"].command == "dnf install -y valgrind valgrind-tools-devel"


def gone(file: str) -> Callable[[Host], object]:
    return lambda host: (host.folder / file).unlink()


NO_TOOL = 'case "$*" in *tlbsim*) exit 1;; *) echo valgrind-3.19.0;; esac'


@pytest.mark.parametrize(
    ("happens", "name", "finding", "command"),
    [
        (lambda h: h.program("valgrind", "exit 1"), "valgrind", "does not report its version$",
         "sudo apt-get install -y valgrind"),
        (lambda h: h.tool(b"\0valgrind-3.18.1\0"), "tlbsim",
         r"^built against valgrind 3\.18\.1, but 3\.19\.0 is installed$", "make .* -B simulator"),
        (lambda h: h.program("valgrind", NO_TOOL), "tlbsim", "does not start", "make .*simulator"),
        (gone("lib/tlbsim-amd64-linux"), "tlbsim", "is not built", "make -C .* all"),
        (gone("libexec/tlbcost-run"), "programs", "tlbcost-run not found", "make -C .* all"),
        (gone("bin/gnuplot"), "gnuplot", "not installed", "sudo apt-get install -y gnuplot-nox"),
        (lambda h: h.glibc(None), "glibc", "not glibc", ""),
        (lambda h: h.monkeypatch.setattr("importlib.util.find_spec", lambda _: None), "libraries",
         "pandas is not installed", "make -C .* all"),
    ],
)  # fmt: skip
def test_what_is_missing_has_a_command(
    host: Host, happens: Callable[[Host], object], name: str, finding: str, command: str
) -> None:
    happens(host)
    check = host.checks()[name]
    assert check.state == "missing"
    assert re.search(finding, check.finding)
    assert re.fullmatch(command, check.command or "")
    assert check.blocks_estimate == (name in ("programs", "libraries"))


def test_installed_without_source_proposes_no_make(host: Host, tmp_path: Path) -> None:
    (tmp_path / "lib" / "tlbsim-amd64-linux").unlink()
    host.monkeypatch.setattr(hints, "source_tree", lambda: None)
    assert host.checks()["tlbsim"].command is None


@pytest.mark.parametrize(
    ("glibc", "hugectl", "state"),
    [((2, 35), "limited", "ok"), ((2, 34), "limited", "limited"), ((2, 31), "ok", "limited")],
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
