# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts of a program, wherever they were read, their table, and why there are none.

The common form of what `tlbcost count` reads here and of what is imported from elsewhere.
"""

from __future__ import annotations

import errno
import os
import pwd
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, cast, get_args

from tlbcost.common import formats
from tlbcost.common.document import amount, doc
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.paths import libexec, sys_path
from tlbcost.counters.pmu import Rights, find_pmu, rights, user_may_count
from tlbcost.processors.events import SIZES, Access, event_name, generic_pmu
from tlbcost.system.hints import as_root, write_setting
from tlbcost.system.machine import Machine, machine_of

# Cycles of two runs of one program differ by less where the runs were alike; those of the article
# that the rule is from (doc/model.md) differ by 2.8 %.
AGREE_FRACTION = 0.04

State = Literal[
    "counted",
    "multiplexed",
    "never_ran",
    "left_over",
    "unsupported",
    "forbidden",
    "failed",
    "silent",
]
Mode = Literal["user", "kernel", "both"]


@dataclass(frozen=True, slots=True)
class EventCount:
    """One event's count. `name`: `role[.access[.size]]` of data/events; None: it has no role.

    `event` is what was counted, in its own words. `value` is scaled where it was multiplexed and
    None where it was not obtained; `running_fraction` None: not known. `run`: the run it is from.
    """

    name: Annotated[
        str | None, doc("role[.access[.size]], as in data/events; null: it has no role")
    ]
    event: Annotated[str, doc("in the words of libpfm4, perf or the file")]
    value: Annotated[float | None, amount("scaled to the whole time")]
    running_fraction: Annotated[
        float | None, amount("part of the time that it had a counter; null: not known")
    ]
    state: Annotated[State, doc("what became of it")]
    run: Annotated[int, amount("the run that it is from")] = 0


@dataclass(frozen=True, slots=True)
class EventCounts:
    """The counts of one program. None: not known.

    `source`: where they are from, in words. `pmu`: the key of the table in data/events that they
    were understood with. `machine`: the one that counted. `notes`: sentences for the report.
    """

    source: str
    pmu: str | None
    mode: Mode | None
    counts: tuple[EventCount, ...]
    wall_ns: float | None = None
    user_ns: float | None = None
    system_ns: float | None = None
    minor_faults: float | None = None
    command: str | None = None
    machine: Machine | None = None
    notes: tuple[str, ...] = ()

    def values(self, run: int | None = None) -> dict[str, float]:
        """The counts that were obtained, by name: those of one run, or the mean of all."""
        found: dict[str, list[float]] = {}
        for count in self.counts:
            if run is not None and count.run != run:
                continue
            if count.name is not None and count.value is not None:
                found.setdefault(count.name, []).append(count.value)
        return {name: sum(values) / len(values) for name, values in found.items()}


def join_runs(parts: Sequence[EventCounts]) -> EventCounts:
    """Counts of all runs of one program; times and faults are means. Raises ValueError."""
    if not parts:
        raise ValueError("nothing was counted")
    counts: list[EventCount] = []
    for part in parts:
        first = 1 + max((count.run for count in counts), default=-1)
        counts += [replace(count, run=first + count.run) for count in part.counts]
    return replace(
        parts[0],
        counts=tuple(counts),
        wall_ns=_mean([part.wall_ns for part in parts]),
        user_ns=_mean([part.user_ns for part in parts]),
        system_ns=_mean([part.system_ns for part in parts]),
        minor_faults=_mean([part.minor_faults for part in parts]),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def merge_sources(parts: Sequence[EventCounts]) -> EventCounts:
    """The counts of one program from several sources as one.

    Raises TlbcostError if their commands, modes or CPUs differ, or their cycles by more than 4 %:
    then they are not of the same work; and if a source has no cycles to see it by. ValueError: no
    parts.
    """
    merged = join_runs(parts)
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    cycles = [part.values().get("cycles") for part in parts]
    for part, found in zip(parts, cycles, strict=True):
        if part.pmu != first.pmu:
            raise _apart(first, part, "they are of different CPUs")
        if None not in (part.mode, first.mode) and part.mode != first.mode:
            raise _apart(first, part, f"one is of mode {first.mode}, the other of {part.mode}")
        if None not in (part.command, first.command) and part.command != first.command:
            raise _apart(first, part, f"one is of '{first.command}', the other of '{part.command}'")
        if found is None:
            raise TlbcostError(
                f"cannot put the counts of {part.source} with others: it has no cycles, which "
                "would show that the runs were alike",
                "count cycles in every run",
            )
    known = [found for found in cycles if found is not None]
    low, high = min(known), max(known)
    if high > (1 + AGREE_FRACTION) * low:
        one, other = parts[known.index(low)], parts[known.index(high)]
        by = f"by {100 * (high / low - 1):.1f} %, more than 4 %" if low else "and one is 0"
        raise _apart(one, other, f"their cycles differ {by}: {low:.0f} and {high:.0f}")
    within = f"{100 * (high / low - 1) if low else 0:.1f} %"
    note = f"the counts are of {len(parts)} runs, whose cycles agree within {within}"
    return replace(
        merged,
        source=", ".join(dict.fromkeys(part.source for part in parts)),
        mode=next((part.mode for part in parts if part.mode is not None), None),
        command=next((part.command for part in parts if part.command is not None), None),
        machine=next((part.machine for part in parts if part.machine is not None), None),
        notes=tuple(dict.fromkeys((*merged.notes, note))),
    )


def _apart(one: EventCounts, other: EventCounts, why: str) -> TlbcostError:
    return TlbcostError(
        f"cannot put the counts of {one.source} and {other.source} together: {why}",
        "count runs of the same program on the same input",
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


START = "# tlbcost counted "


def parse(name: str, text: str) -> EventCounts:
    """The counts of a table. Raises TlbcostError naming the file and the defect."""
    found = formats.parse_table(text, name, formats.COUNTED)
    header = {key: value for key, value in found.header.items() if value != "NA"}
    try:
        mode = header.get("mode")
        if mode not in (None, *get_args(Mode)):
            raise ValueError(f"not a mode: {mode}")
        return EventCounts(
            source=name,
            pmu=header.get("pmu"),
            mode=mode,  # type: ignore[arg-type]
            counts=tuple(_count(row) for row in found.records()),
            wall_ns=formats.number(header.get("wall_ns")),
            user_ns=formats.number(header.get("user_ns")),
            system_ns=formats.number(header.get("system_ns")),
            minor_faults=formats.number(header.get("minor_faults")),
            command=header.get("command"),
            machine=machine_of(found.header) if "base_page_bytes" in header else None,
            notes=tuple(value for key, value in header.items() if key.startswith("note_")),
        )
    except KeyError as error:
        raise TlbcostError(f"{name}: no '# {error.args[0]}:' line in the header") from error
    except ValueError as error:
        raise TlbcostError(f"{name}: {error}") from error


def _count(row: dict[str, str | None]) -> EventCount:
    state = row["state"]
    if state not in get_args(State):
        raise ValueError(f"not a state: {state}")
    value, fraction = formats.number(row["count"]), formats.number(row["running_fraction"])
    run, size = formats.count(row["run"]), formats.count(row["page_size_bytes"])
    if value is not None and value < 0:
        raise ValueError(f"not a count: {row['count']}")
    if fraction is not None and not 0 <= fraction <= 1:
        raise ValueError(f"not a share: {row['running_fraction']}")
    if size not in (None, *SIZES.values()) or run is None:
        raise ValueError(f"not a page size or a run: {row}")
    name = None if row["role"] is None else event_name(row["role"], row["access"], size)
    return EventCount(name, row["event"] or "NA", value, fraction, state, run)  # type: ignore[arg-type]


def name_parts(name: str | None) -> tuple[str | None, Access | None, int | None]:
    """Role, access and page size in bytes of `role[.access[.size]]`."""
    if name is None:
        return None, None, None
    role, *rest = name.split(".")
    access = cast(Access, rest[0]) if rest else None
    return role, access, SIZES[rest[1]] if len(rest) > 1 else None


def whole(value: float | None) -> int | None:
    """Counts are written in full: six digits of them would not do."""
    return None if value is None else round(value)


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
    software = {event.name for event in generic_pmu().events if event.type == "software"}
    if scope == "cgroup" and any(refusal.event in software for refusal in refusals):
        return _error(
            "this cgroup is not one that counters know: it is not in the hierarchy of perf_event",
            "grep perf_event /proc/mounts shows where that is; where it is nowhere, any folder of "
            "cgroup v2 will do",
        )
    if refusals and all(refusal.state == "unsupported" for refusal in refusals):
        return _unsupported([refusal.event for refusal in refusals])
    shown = []
    for each in refusals[:_MOST_NAMES]:
        state = each.state.replace("_", " ")
        shown.append(f"{each.event}: {state if each.error is None else os.strerror(each.error)}")
    if len(refusals) > _MOST_NAMES:
        shown.append("...")
    return _error(
        "; ".join(shown) or "tlbcost-count opened no counter",
        f"'tlbcost doctor' shows what can be counted here; {_SIMULATE}",
    )


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
            why = "which lets users count in user mode only"
            return _paranoid(level, allowed, why, "--user, or ")
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


def _unsupported(names: Sequence[str]) -> TlbcostError:
    if (pmu := find_pmu()).answer == "absent":
        return _error(
            f"there are no hardware counters here ({pmu.how}), as in most virtual machines",
            f"{_SIMULATE}; {_SOFTWARE}",
        )
    shown = ", ".join(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        shown += f" and {len(names) - _MOST_NAMES} more"
    return _error(
        f"the counters of this machine have no {shown}",
        f"'tlbcost events' lists the events of this CPU; {_SIMULATE}",
    )


def _error(why: str, hint: str) -> TlbcostError:
    return TlbcostError(f"cannot count: {why}", hint, CANNOT_MEASURE)
