# SPDX-License-Identifier: GPL-2.0-or-later
"""Whose turn is it to calibrate? Two at once would disturb each other, and one is enough.

A lock on a file next to the cached calibration. A process that gets it at once calibrates. One that
has waited finds the calibration in the cache, or what the other process left for it: a poor one,
which the cache does not keep. The file is removed afterwards; one that a killed process left behind
is not locked, and the next process takes it over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tlbcost.common.files import lock_file
from tlbcost.common.sudo import as_calling_user

_POLL_S = 0.1
# A poor calibration of everything has 30 KiB.
_MOST_BYTES = 1 << 20


class Turn:
    """Our turn: whether we `waited` for it, and what was `left` to us, if anything."""

    def __init__(self, fd: int | None, waited: bool, left: str) -> None:
        self._fd = fd
        self.waited = waited
        self.left = left

    def leave(self, text: str) -> None:
        """Leave a text for processes that wait now, not for later ones."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.pwrite(self._fd, text.encode(), 0)


@contextlib.contextmanager
def our_turn(path: Path, most_s: float, announce: Callable[[str], None]) -> Iterator[Turn]:
    """Wait until no other process has the lock on `path`; hold it during the block.

    If no lock is available (an unwritable folder, a file system without locks), or the other one
    has it for more than `most_s` seconds, it is our turn all the same.
    """
    with contextlib.ExitStack() as stack:
        fd, waited = _locked(path, most_s, announce)
        left = ""
        if fd is not None:
            stack.callback(os.close, fd)
            stack.callback(_remove, path, fd)
            if waited:
                left = _text(fd)
            with contextlib.suppress(OSError):
                if _is(path, fd):
                    os.ftruncate(fd, 0)
        yield Turn(fd, waited, left)


def _locked(path: Path, most_s: float, announce: Callable[[str], None]) -> tuple[int | None, bool]:
    """The file, locked, and whether we waited; None: no lock is available."""
    end = time.monotonic() + most_s
    waited = False
    while True:
        fd = _open(path)
        if fd is None:
            return None, waited
        got = _lock(fd)
        while got is False and time.monotonic() < end:
            if not waited:
                waited = True
                announce("another tlbcost is calibrating this machine: waiting for it")
            time.sleep(_POLL_S)
            got = _lock(fd)
        if not got:
            os.close(fd)
            if got is False:
                announce("the other tlbcost does not end: measuring alongside it")
            return None, waited
        # Removed: its holder has finished, with or without a result for us.
        if _is(path, fd) or (waited and _text(fd)):
            return fd, waited
        os.close(fd)


def _lock(fd: int) -> bool | None:
    """Whether we have the lock now; None: this file system has none."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _open(path: Path) -> int | None:
    with as_calling_user(), contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return lock_file(path)
    return None


def _is(path: Path, fd: int) -> bool:
    with as_calling_user(), contextlib.suppress(OSError):
        return os.path.samestat(path.lstat(), os.fstat(fd))
    return False


def _remove(path: Path, fd: int) -> None:
    if _is(path, fd):
        with as_calling_user(), contextlib.suppress(OSError):
            path.unlink()


def _text(fd: int) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return os.pread(fd, _MOST_BYTES, 0).decode()
    return ""
