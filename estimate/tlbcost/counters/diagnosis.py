# SPDX-License-Identifier: GPL-2.0-or-later
"""Why nothing could be counted, and what would help."""

from __future__ import annotations

import errno
import os
import pwd
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import libexec
from tlbcost.counters.event_counts import Mode, State
from tlbcost.counters.pmu import Found, Rights, find_pmu, rights, user_may_count
from tlbcost.processors.events import generic_pmu
from tlbcost.system.hints import as_root, write_setting
from tlbcost.system.machine import sys_path

Scope = Literal["program", "process", "cgroup", "system"]

_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
# The highest level of perf_event_paranoid that lets a user without privileges count:
# https://docs.kernel.org/admin-guide/sysctl/kernel.html#perf-event-paranoid. Above 2, Debian's
# and Ubuntu's kernels allow no user, and others act as at 2.
_USER_LEVEL, _KERNEL_LEVEL, _SYSTEM_LEVEL = 2, 1, 0
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.ENOSYS)
_SIMULATE = "'tlbcost estimate' simulates instead, and needs none"
_SOFTWARE = "'tlbcost count -e page_faults,task_clock_ns' counts what the kernel knows"
_MOST_NAMES = 3


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event that was not counted: its name, and the state and errno of table counters 1.

    `why`: what libpfm4 said, if it could not encode it.
    """

    event: str
    state: State
    error: int | None
    why: str | None = None


def diagnose(
    refusals: Sequence[Refusal], scope: Scope, mode: Mode, pid: int | None = None
) -> TlbcostError:
    """Why nothing could be counted, and what to type: an error with exit code 4."""
    errors = {refusal.error for refusal in refusals}
    if errno.ESRCH in errors and pid is not None:
        return no_process(pid)
    own = rights()
    if own.paranoid is None and (not errors or errors & {errno.ENOSYS, errno.ENOENT}):
        return _error("this kernel has no performance events", _SIMULATE)
    if any(refusal.state == "forbidden" for refusal in refusals) or errors & set(_FORBIDDEN):
        return _forbidden(errors, own, scope, mode, pid)
    if any(refusal.state == "silent" for refusal in refusals):
        return _error(
            "the counter of cycles opens, but counts nothing: the virtual machine's counters are "
            "not connected",
            f"{_SIMULATE}; {_SOFTWARE}",
        )
    whys = [refusal.why for refusal in refusals if refusal.why is not None]
    if whys and len(whys) == len(refusals):
        return _error(whys[0], "'tlbcost events' lists the events of this CPU")
    if scope == "cgroup" and any(refusal.event in _software() for refusal in refusals):
        return _error(
            "this cgroup is not one that counters know: it is not in the hierarchy of perf_event",
            "grep perf_event /proc/mounts shows where that is; where it is nowhere, any folder of "
            "cgroup v2 will do",
        )
    if refusals and all(refusal.state == "unsupported" for refusal in refusals):
        return _unsupported(refusals, find_pmu())
    return _failed(refusals)


def no_process(pid: int) -> TlbcostError:
    return _error(f"there is no process {pid}", "ps -e lists them")


def explain(refusal: Refusal) -> str:
    if refusal.why is not None:
        return f"{refusal.event} was not obtained: {refusal.why}"
    if refusal.state == "forbidden" and refusal.error is None:
        return (
            f"{refusal.event} was not obtained: the kernel stops counting a program that gains "
            "privileges when it starts (setuid)"
        )
    why = {
        "unsupported": "this CPU, or this virtual machine, does not count it",
        "forbidden": "the kernel does not let this user count it",
        "never_ran": "it never had a counter to itself",
        "left_over": "there was no counter left for it",
        "silent": "it opened and read 0, as an event does that this core does not have",
    }.get(refusal.state, "it could not be opened")
    if refusal.error is not None:
        why += f" ({errno.errorcode.get(refusal.error, refusal.error)})"
    return f"{refusal.event} was not obtained: {why}"


def _forbidden(
    errors: set[int | None], own: Rights, scope: Scope, mode: Mode, pid: int | None
) -> TlbcostError:
    code = next((error for error in _FORBIDDEN if error in errors), errno.EACCES)
    name = errno.errorcode[code]
    level = own.paranoid
    if code == errno.ENOSYS:
        return _filtered(name, level)
    if level is not None and not own.privileged:
        allowed = _USER_LEVEL if mode == "user" else _KERNEL_LEVEL
        if scope in ("system", "cgroup"):
            allowed = _SYSTEM_LEVEL
        if level > _USER_LEVEL and not user_may_count() and not own.filtered:
            return _paranoid(level, allowed, "which lets no user without privileges count")
        if level > allowed and allowed == _SYSTEM_LEVEL:
            return _paranoid(level, allowed, "which lets users count their own programs only")
        if level > allowed:
            return _paranoid(
                level, allowed, "which lets users count in user mode only", "--user, or "
            )
    if scope == "process" and pid is not None and not own.privileged:
        try:
            uid = sys_path(f"/proc/{pid}").stat().st_uid
        except OSError:
            return no_process(pid)
        if uid == os.getuid():
            why = f"process {pid} does not let itself be looked at: it gained privileges"
        else:
            try:
                owner = pwd.getpwuid(uid).pw_name
            except KeyError:
                owner = str(uid)
            why = f"process {pid} belongs to {owner}"
        return _error(why, as_root(f"tlbcost count -p {pid}"))
    if own.filtered:
        return _filtered(name, level)
    return _error(
        f"perf_event_open was refused ({name}), though perf_event_paranoid is {level}: by a "
        "security module, or by the hypervisor",
        f"dmesg may tell; {_SIMULATE}",
    )


def _paranoid(level: int, allowed: int, why: str, instead: str = "") -> TlbcostError:
    setting = write_setting(str(allowed), _PARANOID)
    capability = as_root(f"setcap cap_perfmon=ep {shlex.quote(str(libexec('tlbcost-count')))}")
    return _error(
        f"perf_event_paranoid is {level}, {why}",
        instead + (f"{setting}, or {capability}" if setting else capability),
    )


def _filtered(name: str, level: int | None) -> TlbcostError:
    shown = "" if level is None else f", though perf_event_paranoid is {level}"
    return _error(
        f"perf_event_open was refused ({name}){shown}: a filter on system calls (seccomp), as "
        "containers have, forbids it",
        f"start the container with --cap-add PERFMON, or count outside it; {_SIMULATE}",
    )


def _software() -> set[str]:
    return {event.name for event in generic_pmu().events if event.type == "software"}


def _unsupported(refusals: Sequence[Refusal], pmu: Found) -> TlbcostError:
    if pmu.answer == "absent":
        return _error(
            f"there are no hardware counters here ({pmu.how}), as in most virtual machines",
            f"{_SIMULATE}; {_SOFTWARE}",
        )
    names = [refusal.event for refusal in refusals]
    shown = ", ".join(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        shown += f" and {len(names) - _MOST_NAMES} more"
    return _error(
        f"the counters of this machine have no {shown}",
        f"'tlbcost events' lists the events of this CPU; {_SIMULATE}",
    )


def _failed(refusals: Sequence[Refusal]) -> TlbcostError:
    shown = [
        f"{refusal.event}: {refusal.state.replace('_', ' ')}"
        if refusal.error is None
        else f"{refusal.event}: {os.strerror(refusal.error)}"
        for refusal in refusals[:_MOST_NAMES]
    ]
    if len(refusals) > _MOST_NAMES:
        shown.append("...")
    return _error(
        "; ".join(shown) or "tlbcost-count opened no counter",
        f"'tlbcost doctor' shows what can be counted here; {_SIMULATE}",
    )


def _error(why: str, hint: str) -> TlbcostError:
    return TlbcostError(f"cannot count: {why}", hint, CANNOT_MEASURE)
