# SPDX-License-Identifier: GPL-2.0-or-later
"""A process whose pages are acted on; it says where they are."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys

PAGE, HUGE = 4096, 2 << 20
KINDS = {"free": 16, "pinned": 16, "shared": 16, "zero": 16}
PR_SET_THP_DISABLE = 41
LIBC = ctypes.CDLL(None, use_errno=True)


class Range(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def anonymous(size: int, advice: int | None = None) -> tuple[mmap.mmap, int]:
    """Memory, and the offset of its first huge page."""
    memory = mmap.mmap(-1, size + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if advice is not None:
        memory.madvise(advice)
    return memory, -address(memory) % HUGE


def address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def touch(memory: mmap.mmap, offset: int, size: int) -> None:
    for at in range(offset, offset + size, PAGE):
        memory[at] = 1


def say(word: object) -> None:
    print(word, flush=True)


def obey() -> None:
    """On huge pages, until it is asked to be something else."""
    memory, first = anonymous(16 << 20, mmap.MADV_HUGEPAGE)
    touch(memory, first, 16 << 20)
    say(address(memory) + first)
    for line in sys.stdin:
        match line.strip():
            case "exit":
                os._exit(0)
            case "exec":
                os.execv("/bin/sh", ["sh", "-c", "echo done; read line"])
            case "fork":
                child = os.fork()
                if child == 0:
                    signal.pause()
                say(child)


def fault() -> None:
    """One page after the other, for ever; transparent huge pages are off for this process."""
    LIBC.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    size = 16 << 20
    memory, first = anonymous(size)
    touch(memory, first, size)
    say(address(memory) + first)
    while True:
        # Unmapped as a whole: page tables that stay have base pages only (before Linux 6.14).
        memory.close()
        memory, first = anonymous(size)
        touch(memory, first, size)


def stick() -> None:
    """Pages of each kind, one kind after the other."""
    total = sum(KINDS.values()) * PAGE
    memory, first = anonymous(total, mmap.MADV_NOHUGEPAGE)
    ends = {}
    at = first
    for kind, pages in KINDS.items():
        if kind == "zero":
            # Read before anything was written there.
            sum(memory[each] for each in range(at, at + pages * PAGE, PAGE))
        else:
            touch(memory, at, pages * PAGE)
        if kind != "shared":
            memory.madvise(mmap.MADV_DONTFORK, at, pages * PAGE)
        ends[kind] = at
        at += pages * PAGE
    # Pages in a pipe are held.
    pipe = os.pipe()
    span = Range(address(memory) + ends["pinned"], KINDS["pinned"] * PAGE)
    held = LIBC.vmsplice(pipe[1], ctypes.byref(span), ctypes.c_ulong(1), 0)
    if held != span.length:
        raise OSError(ctypes.get_errno(), "vmsplice")
    if os.fork() == 0:
        LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)
        signal.pause()
    say(address(memory) + first)
    signal.pause()


if __name__ == "__main__":
    {"memory": obey, "faults": fault, "stuck": stick}[sys.argv[1]]()
