# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that a user names, read so that none blocks forever or takes all memory.

A device, a directory and a file that is too large are refused before anything is read; a pipe is
read up to the limit, and not waited for without end.
"""

from __future__ import annotations

import os
import select
import stat
from pathlib import Path

from tlbcost.common.errors import TlbcostError

# More than any table or document of tlbcost has.
MOST_BYTES = 256 << 20
# The writer of a pipe may have to measure first.
_PATIENCE_S = 60.0
_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFDIR: "it is a directory",
    stat.S_IFCHR: "it is a device",
    stat.S_IFBLK: "it is a device",
    stat.S_IFSOCK: "it is a socket",
}


def read_file(path: Path, most_bytes: int = MOST_BYTES, hint: str | None = None) -> bytes:
    """The content of a file or a pipe, of `most_bytes` at most.

    Raises TlbcostError with `hint`: it cannot be read, is no file, is larger, or is a pipe that
    no process writes to.
    """
    try:
        # A FIFO without a writer would not be opened, and a modem line not either.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise TlbcostError(f"cannot read {path}: {error.strerror}", hint) from error
    try:
        return read_descriptor(fd, str(path), most_bytes, hint)
    finally:
        os.close(fd)


def read_text(path: Path, most_bytes: int = MOST_BYTES, hint: str | None = None) -> str:
    """As read_file(), of UTF-8. Raises TlbcostError also for what is not."""
    try:
        return read_file(path, most_bytes, hint).decode()
    except UnicodeDecodeError as error:
        raise TlbcostError(f"cannot read {path}: not UTF-8 text", hint) from error


def read_descriptor(
    fd: int, name: str, most_bytes: int = MOST_BYTES, hint: str | None = None
) -> bytes:
    """As read_file(), of what is open as `fd`; `name` stands for it in messages."""
    try:
        found = os.fstat(fd)
        kind = stat.S_IFMT(found.st_mode)
        why = _KINDS.get(kind)
        if stat.S_ISREG(kind) and found.st_size > most_bytes:
            why = f"it has {found.st_size:,} bytes, and {most_bytes:,} is the most"
        if why is None:
            return _read(fd, most_bytes, pipe=stat.S_ISFIFO(kind))
    except (OSError, _UnreadableError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    raise TlbcostError(f"cannot read {name}: {why}", hint)


class _UnreadableError(Exception):
    """The reason why reading was given up."""


def _read(fd: int, most_bytes: int, *, pipe: bool) -> bytes:
    found = bytearray()
    # Only read() says that a FIFO has no writer yet; on what is ours alone it does not wait.
    wait = pipe and os.get_blocking(fd)
    while True:
        if wait and not select.select([fd], [], [], _PATIENCE_S)[0]:
            raise _UnreadableError(f"nothing came from the pipe for {_PATIENCE_S:.0f} s")
        try:
            part = os.read(fd, _CHUNK)
        except BlockingIOError:
            wait = True
            continue
        if not part:
            if pipe and not found:
                raise _UnreadableError("it is a pipe, and no process writes to it")
            return bytes(found)
        found += part
        if len(found) > most_bytes:
            raise _UnreadableError(f"it does not end within {most_bytes:,} bytes")
