# SPDX-License-Identifier: GPL-2.0-or-later
"""One standard input, the same for every run of a program."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator

from tlbcost.common import units
from tlbcost.common.errors import TOOL_FAILED, TlbcostError, hint_for

# The most of a pipe that is kept: what a run reads beyond that cannot be given to the next one.
LIMIT_BYTES = 1 << 30
_CHUNK_BYTES = 1 << 16


class ProgramInput:
    """Standard input, the same for every run.

    The first run gets the real one. Later ones read a regular file from the same offset again; of
    a terminal nothing, because what was typed is gone. A pipe can be read only once: each run gets
    a pipe of ours, with what other runs were given and then, if it reads on, more of the real one.
    So no more is read of that than the program asks for, but for a pipe's capacity. Runs may be
    fed at the same time.
    """

    def __init__(self, fd: int = 0, limit_bytes: int | None = None) -> None:
        self._fd = fd
        self._offset = 0
        self._kept: _Kept | None = None
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
            self._replay = "feed"
            self._kept = _Kept(fd, limit_bytes or LIMIT_BYTES)

    @property
    def alarm(self) -> int | None:
        """A descriptor that is readable once a run cannot be fed any more; None: always can."""
        return None if self._kept is None else self._kept.alarm

    def check(self) -> None:
        """Raise TlbcostError if a run could not be fed, because too much would have to be kept."""
        if self._kept is not None and self._kept.error is not None:
            raise self._kept.error

    @contextlib.contextmanager
    def opened(self, *, first: bool) -> Iterator[int | None]:
        """Descriptor for a run, None for that of tlbcost. Raises TlbcostError as check() does."""
        if self._kept is not None:
            with self._kept.fed() as fd:
                yield fd
            self.check()
            return
        given: int | None = None
        if not first and self._replay == "nothing":
            given = os.open(os.devnull, os.O_RDONLY)
        elif not first and self._replay == "reopen":
            given = self._reopen(self._fd)
            if given is not None:
                os.lseek(given, self._offset, os.SEEK_SET)
        try:
            yield given
        finally:
            if given is not None:
                os.close(given)

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    @staticmethod
    def _reopen(fd: int) -> int | None:
        # A second descriptor of one open file shares its offset; a second open does not.
        try:
            return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None


class _Kept:
    """What was read of a pipe so far, in a file without a name, and what feeds it to a run."""

    def __init__(self, fd: int, limit_bytes: int) -> None:
        self._fd, self._limit_bytes = fd, limit_bytes
        self._copy: int | None = None
        self._bytes = 0
        self._ended = False
        # Held by the run that reads the real one: others wait for what it will have kept.
        self._reading = threading.Lock()
        self.error: TlbcostError | None = None
        self.alarm = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def close(self) -> None:
        os.close(self.alarm)
        if self._copy is not None:
            os.close(self._copy)

    @contextlib.contextmanager
    def fed(self) -> Iterator[int]:
        """The reading end of a pipe that is fed during the run."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        stop = os.eventfd(0, os.EFD_CLOEXEC)
        os.set_blocking(writer, False)
        thread = threading.Thread(target=self._feed, args=(writer, stop), daemon=True)
        thread.start()
        try:
            yield reader
        finally:
            os.eventfd_write(stop, 1)
            thread.join()
            os.close(stop)
            os.close(reader)

    def _feed(self, writer: int, stop: int) -> None:
        try:
            offset = 0
            while self._available(offset, stop):
                assert self._copy is not None
                data = memoryview(os.pread(self._copy, _CHUNK_BYTES, offset))
                offset += len(data)
                while data:
                    if not _ready(writer, select.POLLOUT, stop):
                        return
                    with contextlib.suppress(BlockingIOError):
                        data = data[os.write(writer, data) :]
        except BrokenPipeError:
            pass  # it reads no more
        except OSError as error:
            folder = tempfile.gettempdir()
            self._fail(f"{folder}: {error.strerror}", hint_for(error.errno))
        finally:
            # After an error it must not look like the end of the input: the run is ended first.
            if self.error is not None:
                _ready(stop, select.POLLIN, stop)
            os.close(writer)

    def _available(self, offset: int, stop: int) -> bool:
        """Whether there is something at this offset; reads on, and keeps it, if need be."""
        while offset >= self._bytes:
            if self._ended or self.error is not None or not _ready(self._fd, select.POLLIN, stop):
                return False
            with self._reading:
                self._read_on(offset)
        return True

    def _read_on(self, offset: int) -> None:
        """Keep more, unless another run has done so: then a read could wait for ever."""
        if offset < self._bytes or self._ended:
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not poll.poll(0):
            return
        free = shutil.disk_usage(tempfile.gettempdir()).free
        if self._bytes >= min(self._limit_bytes, self._bytes + free // 2):
            self._fail(
                f"it is longer than {units.size(self._bytes)}",
                "put the input into a file and give that: tlbcost estimate COMMAND <FILE",
            )
            return
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._fd, _CHUNK_BYTES)
            self._ended = not data
            if self._copy is None:
                with tempfile.TemporaryFile(buffering=0) as copy:
                    self._copy = os.dup(copy.fileno())
            view = memoryview(data)
            while view:
                n = os.pwrite(self._copy, view, self._bytes)
                self._bytes += n
                view = view[n:]

    def _fail(self, why: str, hint: str | None) -> None:
        message = f"cannot keep standard input for later runs: {why}"
        self.error = TlbcostError(message, hint, TOOL_FAILED)
        os.eventfd_write(self.alarm, 1)


def _ready(fd: int, event: int, stop: int) -> bool:
    """Wait until `fd` is ready; False: the run is over."""
    poll = select.poll()
    poll.register(fd, event)
    poll.register(stop, select.POLLIN)
    return all(found != stop for found, _ in poll.poll())
