# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls that look at another process's pages, and move, split and join them."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from tlbcost.numa.node_memory import MOST_PAGES, UNKNOWN, move_pages, system_call

# The number of the system call on all architectures, as of Linux 5.10.
_PROCESS_MADVISE = 440
_MADV_COLD = 20
# One huge page of base pages, on the node that has most of them.
MADV_COLLAPSE = 25
SPLIT_FILE = Path("/sys/kernel/debug/split_huge_pages")


def move(pid: int, addresses: Sequence[int], nodes: Sequence[int]) -> list[int]:
    """Move the page at each address, a huge one as a whole, to its node.

    For each the node that it is on now, or an error, -errno: -EACCES if several processes map it,
    -EBUSY if somebody holds it, -EFAULT for the zero page, -ENOENT if there is none. Raises
    OSError if nothing may be moved.
    """
    found: list[int] = []
    for first in range(0, len(addresses), MOST_PAGES):
        last = first + MOST_PAGES
        found += _move(pid, addresses[first:last], nodes[first:last])
    return found


def _move(pid: int, addresses: Sequence[int], nodes: Sequence[int]) -> list[int]:
    found = move_pages(pid, addresses, nodes)
    left = [i for i, status in enumerate(found) if status == UNKNOWN]
    if len(found) == 1 and left:
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


def advise(pid: int, start: int, bytes_: int, advice: int) -> None:
    """process_madvise(2). Raises OSError."""
    handle = os.pidfd_open(pid)
    try:
        # struct iovec.
        parts = (ctypes.c_size_t * 2)(start, bytes_), ctypes.c_ulong(1)
        what = ctypes.c_int(advice), ctypes.c_uint(0)
        system_call(_PROCESS_MADVISE, ctypes.c_int(handle), *parts, *what)
    finally:
        os.close(handle)
