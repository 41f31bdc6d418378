# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls that look at another process's pages, and move, split and join them."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from tlbcost.numa.node_memory import MOVE_PAGES, page_nodes

# The number of the system call on all architectures, as of Linux 5.10.
_PROCESS_MADVISE = 440
_MPOL_MF_MOVE = 2
_MADV_COLD = 20
_MADV_COLLAPSE = 25
# What the kernel never says of a page.
_UNKNOWN = -(1 << 30)
# In one call, so that a signal does not wait for long.
_MOST_PAGES = 4096
SPLIT_FILE = Path("/sys/kernel/debug/split_huge_pages")


class _Range(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def nodes_of(pid: int, addresses: Sequence[int]) -> list[int | None]:
    """The node of the page at each address; None: there is none. Raises OSError."""
    found: list[int | None] = []
    for first in range(0, len(addresses), _MOST_PAGES):
        found += page_nodes(pid, addresses[first : first + _MOST_PAGES])
    return found


def move(pid: int, addresses: Sequence[int], nodes: Sequence[int]) -> list[int]:
    """Move the page at each address, a huge one as a whole, to its node.

    For each the node that it is on now, or an error, -errno: -EACCES if several processes map it,
    -EBUSY if somebody holds it, -EFAULT for the zero page, -ENOENT if there is none. Raises
    OSError if nothing may be moved.
    """
    found: list[int] = []
    for first in range(0, len(addresses), _MOST_PAGES):
        last = first + _MOST_PAGES
        found += _move(pid, addresses[first:last], nodes[first:last])
    return found


def _move(pid: int, addresses: Sequence[int], nodes: Sequence[int]) -> list[int]:
    n = len(addresses)
    status = (ctypes.c_int * n)(*([_UNKNOWN] * n))
    done = _libc().syscall(
        ctypes.c_long(MOVE_PAGES),
        ctypes.c_int(pid),
        ctypes.c_ulong(n),
        (ctypes.c_void_p * n)(*addresses),
        (ctypes.c_int * n)(*nodes),
        status,
        ctypes.c_int(_MPOL_MF_MOVE),
    )
    if done < 0:
        raise _error()
    found = list(status)
    left = [i for i in range(n) if found[i] == _UNKNOWN]
    if n == 1 and left:
        return [-errno.EBUSY]
    # One that somebody holds ends the call: nothing is said of those moved with it, and those
    # after it are not tried. The halves are, until it is alone.
    for half in (left[: len(left) // 2], left[len(left) // 2 :]):
        if half:
            again = _move(pid, [addresses[i] for i in half], [nodes[i] for i in half])
            for i, now in zip(half, again, strict=True):
                found[i] = now
    return found


def split(pid: int, start: int, bytes_: int) -> None:
    """Split a huge page into base pages, which stay where they are. Raises OSError.

    By debugfs; without it, by advice for one of its base pages alone, for which the kernel splits
    the huge page first (MADV_COLD, madvise_cold_or_pageout_pte_range() in mm/madvise.c).
    """
    if os.access(SPLIT_FILE, os.W_OK):
        SPLIT_FILE.write_text(f"{pid},{start:#x},{start + bytes_:#x}", encoding="ascii")
    else:
        advise(pid, start, 4096, _MADV_COLD)


def collapse(pid: int, start: int, bytes_: int) -> None:
    """Make one huge page of base pages, on the node that has most of them. Raises OSError."""
    advise(pid, start, bytes_, _MADV_COLLAPSE)


def advise(pid: int, start: int, bytes_: int, advice: int) -> None:
    """process_madvise(2). Raises OSError."""
    handle = os.pidfd_open(pid)
    try:
        done = _libc().syscall(
            ctypes.c_long(_PROCESS_MADVISE),
            ctypes.c_int(handle),
            ctypes.byref(_Range(start, bytes_)),
            ctypes.c_ulong(1),
            ctypes.c_int(advice),
            ctypes.c_uint(0),
        )
        if done < 0:
            raise _error()
    finally:
        os.close(handle)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
