# SPDX-License-Identifier: GPL-2.0-or-later
"""How can every run of a program read the same standard input?"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator

from tlbcost.common import units
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.progress import say

_SPOOL_LIMIT_BYTES = 4 << 30
_SPOOL_SILENCE_S = 2.0


class ProgramInput:
    """Standard input, given whole to every run.

    The first run gets the real one. Later ones read a regular file from the same offset again;
    of a pipe they get a copy, made beforehand, because it can be read only once; of a terminal
    nothing, because what was typed is gone. Raises TlbcostError if the copy does not fit.
    """

    def __init__(self, fd: int = 0, limit_bytes: int | None = None) -> None:
        self._fd = fd
        self._offset = 0
        self._spool: int | None = None
        self._replay = "same"
        try:
            mode = os.fstat(fd).st_mode
        except OSError:
            return  # closed: it stays closed in every run
        if stat.S_ISREG(mode) and self._reopen(fd) is not None:
            self._replay = "reopen"
            self._offset = os.lseek(fd, 0, os.SEEK_CUR)
        elif os.isatty(fd):
            self._replay = "nothing"
        elif not stat.S_ISCHR(mode):
            self._replay = "spool"
            self._spool = _spool(fd, limit_bytes)

    @contextlib.contextmanager
    def opened(self, *, first: bool) -> Iterator[int | None]:
        """The descriptor to give to a run; None: the one that tlbcost itself has."""
        fd: int | None = None
        if self._replay == "spool":
            assert self._spool is not None
            fd = self._reopen(self._spool)
        elif not first and self._replay == "nothing":
            fd = os.open(os.devnull, os.O_RDONLY)
        elif not first and self._replay == "reopen":
            fd = self._reopen(self._fd)
            if fd is not None:
                os.lseek(fd, self._offset, os.SEEK_SET)
        try:
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    def close(self) -> None:
        """Give the copy's room back."""
        if self._spool is not None:
            os.close(self._spool)
            self._spool = None

    @staticmethod
    def _reopen(fd: int) -> int | None:
        # A second descriptor of one open file shares its offset; a second open does not.
        try:
            return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None


def _spool(fd: int, limit_bytes: int | None) -> int:
    """Copy what is left in `fd` to a file without a name; returns its descriptor."""
    folder = tempfile.gettempdir()
    limit = limit_bytes or min(_SPOOL_LIMIT_BYTES, shutil.disk_usage(folder).free // 2)
    hint = "put the input into a file and give that: tlbcost estimate COMMAND <FILE"
    total = 0
    announce_at = time.monotonic() + _SPOOL_SILENCE_S
    with contextlib.ExitStack() as stack:
        copy = stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0))
        while True:
            if announce_at and not select.select([fd], [], [], _SPOOL_SILENCE_S)[0]:
                say(
                    "waiting for the end of standard input, which the program will read "
                    "several times"
                )
                announce_at = 0
            data = os.read(fd, 1 << 20)
            if not data:
                return os.dup(copy.fileno())
            total += len(data)
            if total > limit:
                raise TlbcostError(
                    f"cannot keep standard input for later runs: it is longer than "
                    f"{units.size(limit)}",
                    hint,
                    TOOL_FAILED,
                )
            try:
                view = memoryview(data)
                while view:
                    view = view[copy.write(view) :]
            except OSError as error:
                raise TlbcostError(
                    f"cannot keep standard input for later runs: {folder}: {error.strerror}",
                    hint,
                    TOOL_FAILED,
                ) from error
