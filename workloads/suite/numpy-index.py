# SPDX-License-Identifier: GPL-2.0-or-later
"""Gather random elements of a numpy array that lies on the heap or in shared memory.

Fancy indexing is the same work in both, yet the two get huge pages in different ways.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import mmap
import os
import sys
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_HUGE_BYTES = 2 << 20
_IPC_PRIVATE = 0
_IPC_RMID = 0
_IPC_CREAT = 0o1000


def mapped_file(count: int) -> NDArray[np.float64]:
    """Elements in a file of /dev/shm, which has no name any more."""
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        os.ftruncate(file.fileno(), 8 * count)
        return np.frombuffer(mmap.mmap(file.fileno(), 8 * count), dtype=np.float64)


def named_file(path: str) -> Callable[[int], NDArray[np.float64]]:
    """Elements in a file of this name, which goes with the process.

    Of whole huge pages, as hugetlbfs wants it.
    """

    def elements(count: int) -> NDArray[np.float64]:
        length = -(-8 * count // _HUGE_BYTES) * _HUGE_BYTES
        with Path(path).open("w+b", buffering=0) as file:
            atexit.register(os.unlink, path)
            os.ftruncate(file.fileno(), length)
            return np.frombuffer(mmap.mmap(file.fileno(), length), dtype=np.float64)[:count]

    return elements


def memory(text: str) -> Callable[[int], NDArray[np.float64]]:
    """What --memory names."""
    kind, _, path = text.partition(":")
    if kind == "file" and path:
        return named_file(path)
    if text in MEMORY:
        return MEMORY[text]
    raise argparse.ArgumentTypeError(f"not one of {', '.join(MEMORY)} or file:PATH: {text}")


def segment(count: int) -> NDArray[np.float64]:
    """Elements in a System V segment, which goes with the process: what hugectl --shm reaches."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmget.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_int)
    libc.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    libc.shmat.restype = ctypes.c_void_p
    key = libc.shmget(_IPC_PRIVATE, 8 * count, _IPC_CREAT | 0o600)
    if key < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    address = libc.shmat(key, None, 0)
    error = ctypes.get_errno()
    libc.shmctl(key, _IPC_RMID, None)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(error, os.strerror(error))
    return np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))


MEMORY = {"heap": lambda count: np.empty(count), "file": mapped_file, "segment": segment}


def main() -> int:
    """Gather, and print the checksum of what was gathered."""
    parser = argparse.ArgumentParser(prog="numpy-index", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--memory", type=memory, default="heap", help="heap, file, file:PATH or segment (heap)"
    )
    parser.add_argument("--elements", type=int, default=50_000_000, help="of the array (50000000)")
    parser.add_argument("--count", type=int, default=20_000_000, help="gathered a round (20000000)")
    parser.add_argument("--rounds", type=int, default=3, help="times (3)")
    options = parser.parse_args()
    if options.elements < 1 or options.count < 1 or options.rounds < 1:
        parser.error("--elements, --count and --rounds must be at least 1")
    try:
        array = options.memory(options.elements)
    except (MemoryError, OSError) as error:
        print(f"cannot allocate {8 * options.elements} bytes: {error}", file=sys.stderr)
        return 1
    array[:] = np.arange(options.elements)
    places = np.random.default_rng(1).integers(0, options.elements, options.count)
    gathered = np.empty(options.count)
    for _ in range(options.rounds):
        np.take(array, places, out=gathered, mode="clip")
    print(f"checksum {zlib.crc32(gathered.tobytes()):016x}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
