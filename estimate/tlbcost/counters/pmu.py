# SPDX-License-Identifier: GPL-2.0-or-later
"""The counters of this machine: who may read them, and the events to count or sample."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from tlbcost.common import formats, paths
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.formats import parse_table
from tlbcost.common.paths import sys_path
from tlbcost.processors.events import (
    ROLES,
    Encoding,
    Event,
    Pmu,
    generic_pmu,
    named,
    pmu_of,
    select,
)
from tlbcost.processors.events import names as names_in
from tlbcost.system import process
from tlbcost.system.hints import is_root
from tlbcost.system.machine import current_machine, read_line

PROGRAM = "tlbcost-count"
EVENT_SOURCES = "/sys/bus/event_source/devices"
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
        sources = sorted(path.name for path in sys_path(EVENT_SOURCES).glob("*"))
        core = (n for n in sources if n == "cpu" or n.startswith(("cpu_", "armv8_")))
        if (listed := next(core, None)) is None:
            return Found("absent", f"{EVENT_SOURCES}/cpu is not there")
        how = f"{EVENT_SOURCES}/{listed} is there; opening a counter was not tried"
        return Found("listed", how)
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
    status = process.status(process.below_root("self"))
    privileged = is_root()
    if (effective := status.get("CapEff")) is not None:
        held = int(effective, 16)
        privileged = bool(held >> _CAP_PERFMON & 1 or held >> _CAP_SYS_ADMIN & 1)
        # Root of a container's own user namespace is no root to the kernel.
        uid_map = read_line("/proc/self/uid_map")
        privileged &= uid_map is None or uid_map.split() == _INITIAL_UID_MAP
    return Rights(perf_event_paranoid(), privileged, status.get("Seccomp", "0") != "0")


def _open(kind: int, config: int) -> tuple[int, int]:
    libc = ctypes.CDLL(None, use_errno=True)
    # perf_event_attr: type, size, config, ..., flag bits at byte 40.
    attributes = struct.pack("=IIQ24xQ", kind, _ATTR_BYTES, config, _EXCLUDE_KERNEL_AND_HYPERVISOR)
    attributes += bytes(_ATTR_BYTES - len(attributes))
    number = _SYSCALL[platform.machine()]
    fd = int(libc.syscall(number, attributes, 0, -1, -1, _CLOSE_ON_EXEC))
    return fd, ctypes.get_errno() if fd < 0 else 0


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
    role, events = request.role, pmu.events
    if role is not None and role not in ROLES:
        raise TlbcostError(f"no role is called '{role}'", f"there are {', '.join(ROLES)}", USAGE)
    if role is not None:
        events = tuple(event for event in pmu.events if event.role == role)
    if not events:
        roles = ", ".join(dict.fromkeys(event.role for event in pmu.events))
        raise TlbcostError(
            f"{pmu.name} has no event of the role '{role}'", f"it has {roles}", CANNOT_MEASURE
        )
    rows = zip(events, encode([event.spec() for event in events]) or [], strict=False)
    encoded_by = {
        event.name: cast(Encoding, by) for event, row in rows if (by := row["encoded_by"])
    }
    strings = [event for event in events if event.string is not None]
    known = sum(encoded_by.get(event.name) == "libpfm4" for event in strings)
    if encoded_by and known < len(strings):
        here.append(
            f"The libpfm4 installed here knows {known} of the {len(strings)} strings: for the "
            "others the codes are used."
            if known
            else "The libpfm4 installed here knows none of the strings: the codes are used."
        )
    return EventSupport(pmu, events, encoded_by, tuple(here))


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


def encode(specs: Sequence[str]) -> list[dict[str, str | None]] | None:
    """The rows of table encoding 1; None: tlbcost-count is not there, or cannot encode."""
    tool = paths.libexec(PROGRAM)
    if not tool.exists():
        return None
    words = [str(tool), "--encode", *specs]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    return parse_table(done.stdout, PROGRAM, formats.ENCODING).records()


CYCLES = "cycles"
# The kernel's own events take no counter.
_SOFTWARE = "software"
# Of these, what is recorded where there are no counters.
SOFTWARE_SAMPLES = ("task_clock_ns", "page_faults")
# Formulas whose events are counted unless others are named, the most telling first.
_DEFAULT_FORMULAS = (
    "share", "pending_share", "data_share", "code_share", "exposed_share", "ept_share",
    "walks", "data_walks", "code_walks", "hits", "data_hits", "walk_cycles",
    "tma_data_share", "tma_code_share",
)  # fmt: skip
# What a miss is called, the nearest to a walk first.
_MISSES = ("walks_completed", "stlb_misses", "dtlb_misses", "dtlb_load_misses")
_PRECISE = ("sample_load_misses", "sample_store_misses")
# Names of data/events are in lower case, with dots; libpfm4's strings have colons or capitals.
_ROLE = re.compile(r"[a-z0-9_]+(\.[a-z]+(\.[0-9]+[KMG])?)?")
# perf's spelling of a code.
_CODE = re.compile(r"r([0-9a-f]{1,16})")
# The formulas that an estimate can be made of, the best first; one is enough.
_ENOUGH = (("share",), ("pending_share",), ("walks", "hits"), ("data_walks", "data_hits"))
_CORE_TYPES = ("raw", "hardware", "cache")
# Events that every kernel has a name for, as perf spells it; perf's name of a code is the code.
_NAMES = {
    "cycles": "cycles",
    "instructions": "instructions",
    "dtlb_load_misses": "dTLB-load-misses",
    "dtlb_store_misses": "dTLB-store-misses",
    "itlb_misses": "iTLB-load-misses",
}
_OUTPUT = "counts.txt"


@dataclass(frozen=True, slots=True)
class EventRequest:
    """An event to count. `name` is unique among them, and the one in the tool's table.

    `role_name`: the name in data/events, None for one that was given by libpfm4's string or as a
    code. `event` is what it is called in reports, `spec` what tlbcost-count is given.
    """

    name: str
    role_name: str | None
    event: str
    spec: str
    software: bool = False

    @property
    def shown(self) -> str:
        return self.role_name or self.event

    @staticmethod
    def of(event: Event) -> EventRequest:
        shown = event.string or f"{event.type}:{event.code}"
        return EventRequest(event.name, event.name, shown, event.spec(), event.type == _SOFTWARE)


def choose_pmu(name: str | None) -> tuple[Pmu, tuple[str, ...]]:
    """The event table of this CPU or of `name`, and notes on it. Raises TlbcostError (usage)."""
    own = pmu_of(current_machine())
    if name is not None:
        pmu = named(name)
        if own is None or pmu.key in (own.key, generic_pmu().key):
            return pmu, ()
        return pmu, (
            f"this CPU is not one of {pmu.name}, whose codes were counted: they may mean something "
            "else here",
        )
    if own is not None:
        return own, ()
    return generic_pmu(), (
        "this CPU has no event table: the kernel's generic events were counted, whose meaning "
        "depends on the CPU",
    )


def choose_events(pmu: Pmu, names: Sequence[str]) -> tuple[EventRequest, ...]:
    """The events of these names, in this order; of none: what the formulas need.

    A name is one of data/events, a libpfm4 string, or a code as `r1001008`. Cycles come first
    where there are several events, since they show whether several runs were alike. Raises
    TlbcostError (usage) for a name that cannot be any of these.
    """
    if not names:
        return tuple(EventRequest.of(event) for event in default_events(pmu))
    wanted: dict[str, EventRequest] = {}
    for name in names:
        found = _named(pmu, name.strip(), len(wanted))
        for each in found:
            wanted.setdefault(each.role_name or each.event, each)
    chosen = list(wanted.values())
    if sum(not each.software for each in chosen) > 1 and not any(
        each.role_name == CYCLES for each in chosen
    ):
        chosen[:0] = [EventRequest.of(event) for event in pmu.events if event.name == CYCLES]
    return tuple(chosen)


def _named(pmu: Pmu, name: str, number: int) -> list[EventRequest]:
    code = _CODE.fullmatch(name)
    if code:
        return [EventRequest(f"event_{number}", None, name, f"code:raw:0x{code[1]}")]
    if _ROLE.fullmatch(name):
        return [EventRequest.of(event) for event in select(pmu, [name])]
    if not re.fullmatch(r"[!-~]+", name) or "|" in name:
        hint = "'tlbcost events' lists the names; libpfm4's strings work too"
        raise TlbcostError(f"not an event: '{name}'", hint, USAGE)
    software = [event.string for event in generic_pmu().events if event.type == _SOFTWARE]
    return [EventRequest(f"event_{number}", None, name, name, name in software)]


def default_events(pmu: Pmu, formulas: Sequence[str] = _DEFAULT_FORMULAS) -> tuple[Event, ...]:
    """Cycles, instructions, and what these formulas of this CPU need.

    Those of one formula follow each other, so that they tend to be counted in one run.
    """
    needed = [
        {CYCLES, "instructions"},
        *(names_in(pmu.formulas[name]) for name in formulas if name in pmu.formulas),
    ]
    chosen = {event.name: event for some in needed for event in pmu.events if event.name in some}
    return tuple(chosen.values())


def default_sample_names(pmu: Pmu, *, addresses: bool) -> list[str]:
    """Cycles and data misses of this CPU; with `addresses`, those whose samples have one."""
    roles = [_PRECISE] if addresses else []
    for some in (*roles, *((role,) for role in _MISSES)):
        found = [
            event.name
            for event in pmu.events
            if event.role in some and event.page_size_bytes is None and event.access != "fetch"
        ]
        if found:
            # AMD's and Arm's generic events separate loads from stores where they can.
            stores = [e.name for e in pmu.events if e.name == "dtlb_store_misses"]
            return ["cycles", *found, *(stores if found == ["dtlb_load_misses"] else [])]
    return ["cycles"]


def addressed(pmu: Pmu) -> tuple[Event, ...]:
    """Events of data that missed the TLBs whose samples have the data's address."""
    return tuple(event for event in pmu.events if event.role in _PRECISE)


def needed_events(pmu: Pmu) -> tuple[Event, ...]:
    """Events of the best estimate by this CPU's counters. Raises TlbcostError with exit code 4."""
    formulas = next((some for some in _ENOUGH if some[0] in pmu.formulas), None)
    if formulas is None:
        why = f"{pmu.name} counts neither page walks nor the cycles in them"
        hint = "'tlbcost estimate -- COMMAND' simulates the program on such a machine"
        raise TlbcostError(why, hint, CANNOT_MEASURE)
    return default_events(pmu, formulas)


def perf_stat(pmu: Pmu, command: str = "COMMAND") -> str:
    """The command line that writes counts.txt for `estimate --from`. Raises TlbcostError."""
    events = ",".join(perf_name(event) for event in needed_events(pmu))
    return f"perf stat -o {_OUTPUT} -e {events} -- {command}"


def perf_metrics(pmu: Pmu) -> str:
    """The command line that prints perf's own metrics. Raises TlbcostError (4): it has none."""
    names = [name for metrics in pmu.perf_metrics.values() for name in metrics]
    if not names:
        why = f"perf has no metric that means the same as a formula of {pmu.name}"
        hint = "tlbcost events --perf-stat counts what an estimate needs"
        raise TlbcostError(why, hint, CANNOT_MEASURE)
    return f"perf stat -M {','.join(names)} -- COMMAND"


def estimate_from(pmu: Pmu) -> str:
    return f"tlbcost estimate --from {_OUTPUT} --cpu {pmu.aliases[0] if pmu.aliases else pmu.key}"


def perf_name(event: Event) -> str:
    name = _NAMES.get(event.role) if event.type in _CORE_TYPES else None
    if event.role in ("cycles", "instructions") and name is None:
        return f"{event.type}/{event.role}/u"
    if name is not None and (event.type != "raw" or event.access is None):
        return f"{name}:u"
    assert event.code is not None, "an event of a formula has a code"
    if event.type == "raw" and event.config1 is None:
        return f"r{event.code:x}:u"
    source = "cpu" if event.type == "raw" else event.type
    config1 = "" if event.config1 is None else f",config1={event.config1:#x}"
    return f"{source}/config={event.code:#x}{config1}/u"
