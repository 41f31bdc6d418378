# SPDX-License-Identifier: GPL-2.0-or-later
"""The counters of this machine: who may read them, and which events they have."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from tlbcost.common import formats, paths
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.table import parse_table
from tlbcost.processors.event_tables import generic_pmu, named, pmu_of
from tlbcost.processors.events import ROLES, Encoding, Event, Pmu
from tlbcost.system.hints import is_root
from tlbcost.system.machine import current_machine, read_line, sys_path

PROGRAM = "tlbcost-count"
# perf_event_open has no C library function; its number is the architecture's.
_SYSCALL = {
    "x86_64": 298,
    "aarch64": 241,
    "riscv64": 241,
    "ppc64le": 319,
    "ppc64": 319,
    "s390x": 331,
}
_ATTR_BYTES = 112
_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6
_CLOSE_ON_EXEC = 8
_HARDWARE_CYCLES = (0, 0)
_SOFTWARE_TASK_CLOCK = (1, 1)
_NOT_THERE = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENXIO)
# linux/capability.h; before Linux 5.8 CAP_SYS_ADMIN alone.
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
# The user namespace that capabilities must be of.
_INITIAL_UID_MAP = ["0", "0", "4294967295"]

Answer = Literal["counts", "silent", "forbidden", "absent", "listed", "unknown"]


@dataclass(frozen=True, slots=True)
class Found:
    """`how` says what was done to find out; `listed` means that opening was not tried."""

    answer: Answer
    how: str


@dataclass(frozen=True, slots=True)
class Rights:
    """What the kernel asks before it lets a process count.

    `paranoid`: kernel.perf_event_paranoid, None: this kernel has no performance events.
    `privileged`: that setting does not bind us. `filtered`: a seccomp filter may refuse us.
    """

    paranoid: int | None
    privileged: bool
    filtered: bool


def find_pmu() -> Found:
    """Open a counter of user-mode cycles and see it count; on a made-up machine, read /sys."""
    if os.environ.get("TLBCOST_ROOT") or platform.machine() not in _SYSCALL:
        listed = _listed()
        how = f"/sys/bus/event_source/devices/{listed or 'cpu'}"
        if listed:
            return Found("listed", f"{how} is there; opening a counter was not tried")
        return Found("absent", f"{how} is not there")
    fd, error = _open(*_HARDWARE_CYCLES)
    if fd < 0:
        how = f"perf_event_open of cycles gave {errno.errorcode.get(error, error)}"
        if error in _NOT_THERE:
            return Found("absent", how)
        if error in (errno.EACCES, errno.EPERM):
            return Found("forbidden", how)
        return Found("unknown", how)
    try:
        sum(range(10000))
        counted = int.from_bytes(os.read(fd, 8), sys.byteorder)
    finally:
        os.close(fd)
    if counted == 0:
        return Found("silent", "perf_event_open of cycles worked, but nothing was counted")
    return Found("counts", "perf_event_open of cycles worked")


def user_may_count() -> bool | None:
    """Whether we may count in user mode, if known. Debian refuses users above paranoid 2."""
    if os.environ.get("TLBCOST_ROOT") or platform.machine() not in _SYSCALL:
        return None
    fd, error = _open(*_SOFTWARE_TASK_CLOCK)
    if fd >= 0:
        os.close(fd)
        return True
    return False if error in (errno.EACCES, errno.EPERM) else None


def perf_event_paranoid() -> int | None:
    """kernel.perf_event_paranoid, or None if this kernel has no performance events."""
    text = read_line("/proc/sys/kernel/perf_event_paranoid")
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def rights() -> Rights:
    """Our own; on a made-up machine, whether we are root decides."""
    status = _own_status()
    effective = status.get("CapEff")
    if effective is None:
        privileged = is_root()
    else:
        held = int(effective, 16)
        privileged = bool(held >> _CAP_PERFMON & 1 or held >> _CAP_SYS_ADMIN & 1)
        # Root of a container's own user namespace is no root to the kernel.
        uid_map = read_line("/proc/self/uid_map")
        privileged &= uid_map is None or uid_map.split() == _INITIAL_UID_MAP
    return Rights(perf_event_paranoid(), privileged, status.get("Seccomp", "0") != "0")


def _own_status() -> dict[str, str]:
    try:
        text = sys_path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.splitlines())
    return {name: value.strip() for name, _, value in lines}


def _open(kind: int, config: int) -> tuple[int, int]:
    libc = ctypes.CDLL(None, use_errno=True)
    # perf_event_attr: type, size, config, ..., flag bits at byte 40.
    attributes = struct.pack("=IIQ24xQ", kind, _ATTR_BYTES, config, _EXCLUDE_KERNEL_AND_HYPERVISOR)
    attributes += bytes(_ATTR_BYTES - len(attributes))
    number = _SYSCALL[platform.machine()]
    fd = int(libc.syscall(number, attributes, 0, -1, -1, _CLOSE_ON_EXEC))
    return fd, ctypes.get_errno() if fd < 0 else 0


def _listed() -> str | None:
    try:
        names = sorted(p.name for p in sys_path("/sys/bus/event_source/devices").iterdir())
    except OSError:
        return None
    return next((n for n in names if n == "cpu" or n.startswith(("cpu_", "armv8_"))), None)


@dataclass(frozen=True, slots=True)
class EventsRequest:
    """Of which CPU (None: this one), and of which role (None: of all)."""

    pmu: str | None = None
    role: str | None = None


@dataclass(frozen=True, slots=True)
class EventSupport:
    """`encoded_by` has, by name, how an event is encoded here; `here` are sentences on that."""

    pmu: Pmu
    events: tuple[Event, ...]
    encoded_by: dict[str, Encoding]
    here: tuple[str, ...]


def event_support(request: EventsRequest) -> EventSupport:
    """Raises TlbcostError for a CPU (usage) or a role that there is not."""
    pmu, here = (named(request.pmu), []) if request.pmu else _of_this_machine()
    events = _of_role(pmu, request.role)
    encoded_by = _encoded_by(events)
    return EventSupport(pmu, events, encoded_by, (*here, *_on_encoding(events, encoded_by)))


def _of_this_machine() -> tuple[Pmu, list[str]]:
    machine = current_machine()
    pmu, here = pmu_of(machine), []
    if pmu is None:
        known_as = machine.cpu_name or "without a name"
        here.append(f"No table is of this CPU ({known_as}): the kernel's generic events are shown.")
    found = find_pmu()
    if found.answer in ("absent", "silent"):
        here.append(f"No hardware counter can be read here: {found.how}.")
    elif found.answer == "forbidden":
        here.append(f"This user may not read counters here: {found.how}.")
    return pmu or generic_pmu(), here


def _of_role(pmu: Pmu, role: str | None) -> tuple[Event, ...]:
    if role is None:
        return pmu.events
    if role not in ROLES:
        raise TlbcostError(f"no role is called '{role}'", f"there are {', '.join(ROLES)}", USAGE)
    events = tuple(event for event in pmu.events if event.role == role)
    if not events:
        roles = ", ".join(dict.fromkeys(event.role for event in pmu.events))
        raise TlbcostError(
            f"{pmu.name} has no event of the role '{role}'", f"it has {roles}", CANNOT_MEASURE
        )
    return events


def _encoded_by(events: Sequence[Event]) -> dict[str, Encoding]:
    tool = paths.libexec(PROGRAM)
    if not tool.exists():
        return {}
    command = [str(tool), "--encode", *(event.spec() for event in events)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {}
    table = parse_table(done.stdout, PROGRAM, formats.ENCODING)
    rows = zip(events, table.records(), strict=True)
    return {event.name: cast(Encoding, by) for event, row in rows if (by := row["encoded_by"])}


def _on_encoding(events: Sequence[Event], encoded_by: dict[str, Encoding]) -> list[str]:
    strings = [event for event in events if event.string is not None]
    known = sum(encoded_by.get(event.name) == "libpfm4" for event in strings)
    if not strings or not encoded_by or known == len(strings):
        return []
    if known:
        return [
            f"The libpfm4 installed here knows {known} of the {len(strings)} strings: for the "
            "others the codes are used."
        ]
    return ["The libpfm4 installed here knows none of the strings: the codes are used."]
