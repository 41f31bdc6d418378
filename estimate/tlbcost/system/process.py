# SPDX-License-Identifier: GPL-2.0-or-later
"""Read /proc/PID: stat, status, names and children of a process.

A number means that process of this machine. A folder may be that of a thread, or below
$TLBCOST_ROOT: see below_root().
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from tlbcost.common.errors import TlbcostError
from tlbcost.system.machine import sys_path

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
