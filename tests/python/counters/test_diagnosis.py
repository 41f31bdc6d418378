# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may read the counters, and does each kind of refusal say why, and what to type?"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from builders.counting import write_rights
from tlbcost.common import paths
from tlbcost.counters import event_counts, pmu
from tlbcost.counters.event_counts import Mode, Refusal, Scope, diagnose, explain
from tlbcost.counters.pmu import Found, Rights
from tlbcost.system import hints

CYCLES = Refusal("cycles", "unsupported", errno.ENOENT)


class Kernel:
    """What the kernel lets us do, made up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._set = monkeypatch.setattr
        self.is_root(False)
        self.has("absent")
        self._set(hints, "write_setting", self.write_setting)
        self._set(event_counts, "write_setting", self.write_setting)
        self.writable = True
        self.lets_users(False)

    def lets_users(self, may: bool) -> None:
        self._set(event_counts, "user_may_count", lambda: may)

    def write_setting(self, value: str, path: str) -> str | None:
        return f"echo {value} | sudo tee {path}" if self.writable else None

    def is_root(self, is_root: bool) -> None:
        self._set(event_counts, "as_root", lambda c: c if is_root else f"sudo {c}")

    def has(self, answer: pmu.Answer) -> None:
        self._set(event_counts, "find_pmu", lambda: Found(answer, "so it is"))

    def lets(self, paranoid: int | None, privileged: bool = False, filtered: bool = False) -> None:
        self._set(event_counts, "rights", lambda: Rights(paranoid, privileged, filtered))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    monkeypatch.setattr(paths, "libexec", lambda name: Path("/opt") / name)
    monkeypatch.setattr(event_counts, "libexec", lambda name: Path("/opt") / name)
    return Kernel(monkeypatch)


def said(
    refusals: list[Refusal], scope: Scope = "program", mode: Mode = "user", pid: int | None = None
) -> tuple[str, str]:
    error = diagnose(refusals, scope, mode, pid)
    assert error.exit_code == 4
    assert str(error).startswith("cannot count: ")
    assert error.hint is not None
    return str(error), error.hint


def forbidden(error: int = errno.EACCES) -> list[Refusal]:
    return [Refusal("cycles", "forbidden", error)]


SETTING = "echo {} | sudo tee /proc/sys/kernel/perf_event_paranoid"
CAPABILITY = "sudo setcap cap_perfmon=ep /opt/tlbcost-count"


@pytest.mark.parametrize(
    ("level", "scope", "mode", "words", "hint"),
    [
        (4, "program", "user", "is 4, which lets no user", SETTING.format(2)),
        (3, "program", "user", "is 3, which lets no user", SETTING.format(2)),
        (3, "program", "kernel", "is 3, which lets no user", SETTING.format(1)),
        (3, "system", "user", "is 3, which lets no user", SETTING.format(0)),
        (2, "program", "kernel", "is 2, which lets users count in user mode only", "--user, or "),
        (2, "program", "both", "is 2, which lets users count in user mode only", SETTING.format(1)),
        (2, "process", "kernel", "is 2, which lets users count in user mode only", "--user, or "),
        (2, "system", "user", "is 2, which lets users count their own", SETTING.format(0)),
        (1, "system", "user", "is 1, which lets users count their own", SETTING.format(0)),
        (1, "cgroup", "kernel", "is 1, which lets users count their own", SETTING.format(0)),
    ],
)
def test_the_setting_that_forbids_it(
    kernel: Kernel, level: int, scope: Scope, mode: Mode, words: str, hint: str
) -> None:
    kernel.lets(level)
    message, remedy = said(forbidden(), scope, mode)
    assert f"perf_event_paranoid {words}" in message
    assert hint in remedy
    # A setting that cannot be written (a container) is not proposed.
    assert CAPABILITY in remedy
    kernel.writable = False
    assert "echo" not in said(forbidden(), scope, mode)[1]


@pytest.mark.parametrize("level", [3, 4])
def test_kernels_that_know_no_level_beyond_2(kernel: Kernel, level: int) -> None:
    kernel.lets(level)
    kernel.lets_users(True)
    message, hint = said(forbidden(), "program", "kernel")
    assert f"is {level}, which lets users count in user mode only" in message
    assert SETTING.format(1) in hint


@pytest.mark.parametrize("level", [-1, 0, 1, 2])
def test_what_the_setting_allows_is_forbidden_by_a_filter(kernel: Kernel, level: int) -> None:
    kernel.lets(level, filtered=True)
    message, hint = said(forbidden(errno.EPERM))
    assert f"refused (EPERM), though perf_event_paranoid is {level}: a filter" in message
    assert "--cap-add PERFMON" in hint


@pytest.mark.parametrize("level", [2, 4])
def test_a_filter_binds_root_too(kernel: Kernel, level: int) -> None:
    kernel.lets(level, privileged=True, filtered=True)
    assert "(seccomp)" in said(forbidden(errno.EPERM))[0]
    assert "(seccomp)" in said([Refusal("cycles", "failed", errno.ENOSYS)])[0]


@pytest.mark.parametrize(
    ("refusals", "words", "hint"),
    [
        (forbidden(), ".*by a security module.*", ""),
        ([Refusal("cycles", "failed", errno.EMFILE)], "cycles: Too many open files", "doctor"),
        ([Refusal("cycles", "silent", None)], ".*opens, but counts nothing.*", ""),
        # A name that libpfm4 does not know.
        ([Refusal("skl::NO", "unsupported", errno.ENOENT, "skl::NO: event not found")],
         ".*skl::NO: event not found.*", ""),
        ([], "tlbcost-count opened no counter", ""),
    ],
)  # fmt: skip
def test_other_refusals(kernel: Kernel, refusals: list[Refusal], words: str, hint: str) -> None:
    kernel.lets(2, privileged=True)
    message, remedy = said(refusals)
    assert re.fullmatch(f"cannot count: {words}", message)
    assert hint in remedy
    kernel.lets(None)
    message, remedy = said([Refusal("cycles", "failed", errno.ENOSYS)])
    assert message == "cannot count: this kernel has no performance events"
    assert "simulates" in remedy


def test_no_counters(kernel: Kernel) -> None:
    kernel.lets(2)
    message, hint = said([CYCLES, Refusal("instructions", "unsupported", errno.ENOENT)])
    assert "there are no hardware counters here (so it is)" in message
    # What works instead: both of it.
    assert "tlbcost estimate" in hint
    assert "tlbcost count -e page_faults,task_clock_ns" in hint


def test_counters_without_these_events(kernel: Kernel) -> None:
    kernel.lets(2)
    kernel.has("counts")
    names = ["walks_completed.load", "walks_completed.store", "a", "b", "c"]
    message, hint = said([Refusal(name, "unsupported", errno.ENOENT) for name in names])
    assert "have no walks_completed.load, walks_completed.store, a and 2 more" in message
    assert "'tlbcost events' lists" in hint


def test_processes_of_others(kernel: Kernel) -> None:
    kernel.lets(2)
    uid = os.stat("/proc/1").st_uid  # noqa: PTH116
    owner = "process 1 belongs to root"
    if uid == os.getuid():
        owner = "process 1 does not let itself be looked at"
    message, hint = said(forbidden(), "process", pid=1)
    assert owner in message
    assert hint == "sudo tlbcost count -p 1"
    assert "there is no process 4194303" in said(forbidden(), "process", pid=4194303)[0]
    gone = [Refusal("cycles", "failed", errno.ESRCH)]
    assert "there is no process 17" in said(gone, "process", pid=17)[0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Refusal("e", "unsupported", errno.ENOENT), "does not count it (ENOENT)"),
        (Refusal("e", "unsupported", errno.EINVAL, "x: unknown"), "e was not obtained: x: unknown"),
        (Refusal("e", "forbidden", errno.EACCES), "does not let this user count it (EACCES)"),
        (Refusal("e", "forbidden", None), "gains privileges when it starts (setuid)"),
        (Refusal("e", "never_ran", None), "never had a counter"),
        (Refusal("e", "left_over", None), "no counter left"),
        (Refusal("e", "silent", None), "read 0"),
        (Refusal("e", "failed", errno.EMFILE), "could not be opened (EMFILE)"),
    ],
)
def test_explanations(given: Refusal, words: str) -> None:
    assert words in explain(given)


def test_a_cgroup_that_counters_do_not_know(kernel: Kernel) -> None:
    kernel.lets(2)
    refusals = [CYCLES, Refusal("page_faults", "unsupported", errno.ENOENT)]
    message, hint = said(refusals, "cgroup")
    assert "not in the hierarchy of perf_event" in message
    assert "/proc/mounts" in hint
    # Without an event that every kernel has, that is not known.
    assert "no hardware counters" in said([CYCLES], "cgroup")[0]


INITIAL = "         0          0 4294967295\n"


@pytest.mark.parametrize(
    ("status", "uid_map", "paranoid", "expected"),
    [
        ("CapEff:\t000001ffffffffff\nSeccomp:\t0\n", INITIAL, "2", Rights(2, True, False)),
        # CAP_PERFMON alone, and CAP_SYS_ADMIN alone.
        ("CapEff:\t0000004000000000\nSeccomp:\t0\n", INITIAL, "4", Rights(4, True, False)),
        ("CapEff:\t0000000000200000\nSeccomp:\t0\n", INITIAL, "-1", Rights(-1, True, False)),
        ("CapEff:\t0000000000000000\nSeccomp:\t2\n", INITIAL, "1", Rights(1, False, True)),
        # Root of a container is none.
        ("CapEff:\t000001ffffffffff\nSeccomp:\t2\n", "0 100000 65536\n", "2",
         Rights(2, False, True)),
        ("", None, None, Rights(None, True, False)),
        ("", None, "two", Rights(None, True, False)),
    ],
)  # fmt: skip
def test_rights_are_read(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    status: str,
    uid_map: str | None,
    paranoid: str | None,
    expected: Rights,
) -> None:
    write_rights(tmp_path, status, uid_map, paranoid)
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    monkeypatch.setattr(pmu, "is_root", lambda: True)
    assert pmu.rights() == expected


def test_this_process_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TLBCOST_ROOT", raising=False)
    own = pmu.rights()
    if os.getuid() != 0:
        assert not own.privileged
    may = pmu.user_may_count()
    if own.paranoid is not None and own.paranoid <= 2 and not own.filtered:
        assert may is True
