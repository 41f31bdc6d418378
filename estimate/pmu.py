# SPDX-License-Identifier: GPL-2.0-or-later
"""Are there hardware counters here, and may this user read them?"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from dataclasses import dataclass
from typing import Literal

from tlbcost.machine import read_line, sys_path

# perf_event_open has no C library function; its number is the architecture's.
_SYSCALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "ppc64": 319}
_ATTR_BYTES = 112
_EXCLUDE_KERNEL_AND_HYPERVISOR = 1 << 5 | 1 << 6
_CLOSE_ON_EXEC = 8

Answer = Literal["counts", "silent", "forbidden", "absent", "listed", "unknown"]


@dataclass(frozen=True, slots=True)
class Pmu:
    """`how` tells what was done to find out; `listed` means that opening was not tried."""

    answer: Answer
    how: str


def find_pmu() -> Pmu:
    """Open a counter of user-mode cycles and see it count; on a made-up machine, read /sys."""
    number = _SYSCALL.get(platform.machine())
    if os.environ.get("TLBCOST_ROOT") or number is None:
        listed = _listed()
        how = f"/sys/bus/event_source/devices/{listed or 'cpu'}"
        if listed:
            return Pmu("listed", f"{how} is there; opening a counter was not tried")
        return Pmu("absent", f"{how} is not there")
    libc = ctypes.CDLL(None, use_errno=True)
    # perf_event_attr: type hardware, size, config 0 (cycles), ..., flag bits at byte 40.
    attributes = struct.pack("=IIQ24xQ", 0, _ATTR_BYTES, 0, _EXCLUDE_KERNEL_AND_HYPERVISOR)
    attributes += bytes(_ATTR_BYTES - len(attributes))
    fd = libc.syscall(number, attributes, 0, -1, -1, _CLOSE_ON_EXEC)
    if fd < 0:
        error = ctypes.get_errno()
        how = f"perf_event_open of cycles gave {errno.errorcode.get(error, error)}"
        if error in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENXIO):
            return Pmu("absent", how)
        if error in (errno.EACCES, errno.EPERM):
            return Pmu("forbidden", how)
        return Pmu("unknown", how)
    try:
        sum(range(10000))
        counted = int.from_bytes(os.read(fd, 8), sys.byteorder)
    finally:
        os.close(fd)
    if counted == 0:
        return Pmu("silent", "perf_event_open of cycles worked, but nothing was counted")
    return Pmu("counts", "perf_event_open of cycles worked")


def perf_event_paranoid() -> int | None:
    """kernel.perf_event_paranoid, or None if this kernel has no performance events."""
    text = read_line("/proc/sys/kernel/perf_event_paranoid")
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _listed() -> str | None:
    """The name of a core's PMU among the kernel's event sources."""
    try:
        names = sorted(p.name for p in sys_path("/sys/bus/event_source/devices").iterdir())
    except OSError:
        return None
    return next((n for n in names if n == "cpu" or n.startswith(("cpu_", "armv8_"))), None)
