# SPDX-License-Identifier: GPL-2.0-or-later
"""/proc/PID of a process, its cgroup's memory limit, and which processes may be traced.

A number means that process of this machine. A folder may be that of a thread, or below
$TLBCOST_ROOT: see below_root().
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from tlbcost.common.errors import TlbcostError
from tlbcost.common.paths import sys_path
from tlbcost.system import hints
from tlbcost.system.machine import read_number, read_text

Place = int | str
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_CHUNK = 1 << 20


class Stat(NamedTuple):
    """/proc/PID/stat. `started`: clock ticks since boot; they tell it from a later one of its
    number. `space_bytes`: of addresses; 0 for a thread of the kernel, and after its end.
    """

    name: bytes
    state: str
    parent: int
    minor_faults: int
    major_faults: int
    user_ns: int
    system_ns: int
    started: int
    space_bytes: int
    resident_pages: int
    cpu: int


def below_root(pid: int | str) -> str:
    """The folder of a process, on the machine itself or on a test's fake one."""
    return str(sys_path(f"/proc/{pid}"))


def _path(place: Place, name: str) -> str:
    return os.path.join("/proc", str(place), name)  # noqa: PTH118


def read(place: Place, name: str) -> bytes:
    """A whole file of a process, faster than by pathlib. Raises OSError."""
    file = os.open(_path(place, name), os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(file, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def read_stat(place: Place) -> Stat:
    """Raises OSError, ESRCH for a process that is gone."""
    # The name, in parentheses, may hold anything.
    head, _, tail = read(place, "stat").rpartition(b")")
    words = tail.split()
    if len(words) <= 36:
        raise ProcessLookupError
    # proc(5) numbers fields from 1; the state is field 3.
    parent, minor, major, user, system, started, space, resident, cpu = (
        int(words[field - 3]) for field in (4, 10, 12, 14, 15, 22, 23, 24, 39)
    )
    name, state = head.partition(b"(")[2], words[0].decode()
    return Stat(
        name, state, parent, minor, major, user * _TICK_NS, system * _TICK_NS, started, space,
        resident, cpu,
    )  # fmt: skip


def stat(place: Place) -> Stat | None:
    """None if the process is gone."""
    with contextlib.suppress(OSError):
        return read_stat(place)
    return None


def start_ticks(pid: int) -> int | None:
    return found.started if (found := stat(pid)) else None


def is_running(place: Place) -> bool:
    """Whether it is there, and no zombie."""
    return (found := stat(place)) is not None and found.state not in "ZX"


def status(place: Place) -> dict[str, str]:
    """/proc/PID/status by key; empty if the process is gone."""
    try:
        lines = read(place, "status").decode(errors="replace").splitlines()
    except OSError:
        return {}
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def thp_enabled(pid: int) -> str | None:
    """Whether it may have transparent huge pages (prctl(2)), "0" or "1"; None if unknown."""
    return status(below_root(pid)).get("THP_enabled")


def name(pid: int) -> str | None:
    """Its name in ps, of at most 15 characters."""
    with contextlib.suppress(OSError):
        return read(pid, "comm").decode(errors="replace").strip() or None
    return None


def executable(place: Place) -> str:
    """Raises OSError."""
    return os.readlink(_path(place, "exe"))  # noqa: PTH115


def owner(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid
    return None


def children(pid: int) -> list[int] | None:
    """The children of all its threads; None: the kernel has no list of them."""
    found: list[int] = []
    threads = f"/proc/{pid}/task"
    try:
        numbers = os.listdir(threads)  # noqa: PTH208
    except OSError:
        return []
    for number in numbers:
        try:
            found += map(int, read(f"{threads}/{number}", "children").split())
        except FileNotFoundError:
            if Path(threads, number).exists():
                return None
        except OSError:
            continue
    return found


def gone(pid: int) -> TlbcostError:
    return TlbcostError(f"there is no process {pid}", "ps -e lists them")


PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
# linux/capability.h
_CAP_SYS_PTRACE = 19
# The kernel's documentation of Yama: children only, root only, nobody.
_CHILDREN, _ROOT, _NOBODY = 1, 2, 3

Traceable = Literal["all", "own", "launched", "none"]


@dataclass(frozen=True, slots=True)
class TracingRights:
    """What the kernel asks before one process may trace another.

    `scope`: kernel.yama.ptrace_scope; None: this kernel has no Yama. `privileged`: we have
    CAP_SYS_PTRACE. `filtered`: we have a seccomp filter, which what we start inherits.
    """

    scope: int | None
    privileged: bool
    filtered: bool

    @property
    def traceable(self) -> Traceable:
        """All processes; our own; those that we start; or none."""
        scope = self.scope or 0
        if scope >= _NOBODY:
            return "none"
        if self.privileged:
            return "all"
        if scope >= _ROOT:
            return "none"
        return "launched" if scope == _CHILDREN else "own"

    @property
    def locked(self) -> bool:
        return (self.scope or 0) >= _NOBODY


def tracing_rights() -> TracingRights:
    own = status(below_root("self"))
    privileged = hints.is_root()
    if (effective := own.get("CapEff")) is not None:
        privileged = bool(int(effective, 16) >> _CAP_SYS_PTRACE & 1)
    filtered = own.get("Seccomp", "0") != "0"
    return TracingRights(read_number(PTRACE_SCOPE), privileged, filtered)


# Version 1 writes "no limit" as the largest multiple of the page size in 63 bits.
NO_LIMIT_BYTES = 1 << 60
# By version: the file with the counter of kills, and the one with the limit.
_FILES = {1: ("memory.oom_control", "memory.limit_in_bytes"), 2: ("memory.events", "memory.max")}


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """State of this process's memory cgroup. `None`: no such figure, or no limit."""

    oom_kills: int | None
    limit_bytes: int | None


def memory_limit() -> MemoryLimit:
    """The kills so far and the tightest limit of this process's memory cgroup and its ancestors."""
    for folder, root, version in folders("memory"):
        kills, limits = _FILES[version]
        counter = re.search(r"^oom_kill (\d+)$", _text(folder / kills), re.MULTILINE)
        if counter is None:
            continue
        own = [each for each in (folder, *folder.parents) if each.is_relative_to(root)]
        bound = [limit for each in own if (limit := number_in(each / limits)) is not None]
        known = [limit for limit in bound if limit < NO_LIMIT_BYTES]
        return MemoryLimit(int(counter[1]), min(known, default=None))
    return MemoryLimit(None, None)


def folders(controller: str) -> list[tuple[Path, Path, int]]:
    """(this process's folder, the mount, version of cgroups) for a controller, version 1 first."""
    groups: dict[str, str] = {}
    for line in (read_text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    found = []
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if kind[0] == "cgroup" and controller in kind[-1].split(",") and controller in groups:
            path, version = groups[controller], 1
        elif kind[0] == "cgroup2" and "" in groups:
            path, version = groups[""], 2
        else:
            continue
        # A container's mount shows only its own part of the tree.
        root, mount = fields[3].rstrip("/"), sys_path(fields[4])
        inside = path[len(root) :] if path == root or path.startswith(f"{root}/") else ""
        found.append((mount / inside.strip("/"), mount, version))
    return sorted(found, key=lambda each: each[2])


def number_in(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
