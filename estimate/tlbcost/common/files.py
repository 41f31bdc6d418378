# SPDX-License-Identifier: GPL-2.0-or-later
"""Files made in folders where others may write: nobody else's name decides what is written to."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MOST_LINKS = 40
_FIND = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Place:
    """An open folder and a name in it. `there`: what has this name and is written in place (a
    device, a pipe, an open file of /proc/PID/fd), opened with O_PATH; None: a file, or nothing yet.
    """

    folder: int
    name: str
    there: int | None


@contextlib.contextmanager
def place_of(path: Path, *, linked: bool = True) -> Iterator[Place]:
    """Where a file is, or would be. Each component is opened below the one before it.

    Raises OSError; ELOOP if that needs another user's link in a folder that is not trusted, or if
    the file itself is a link and not to be `linked`.
    """
    with contextlib.ExitStack() as stack:

        def opened(name: str, flags: int = _FIND) -> int:
            found = os.open(name, flags, dir_fd=folder)
            stack.callback(os.close, found)
            return found

        folder: int | None = None
        folder = opened(".")
        words, links = list(path.parts[::-1]), 0
        while words:
            name = words.pop()
            try:
                there = opened(name)
            except FileNotFoundError:
                if words:
                    raise
                yield Place(folder, name, None)
                return
            found, of_proc = os.fstat(there), False
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > _MOST_LINKS or not (words or linked):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                _check(folder, found)
                of_proc = found.st_dev == Path("/proc/self").lstat().st_dev
                if not of_proc:
                    words += Path(os.readlink("", dir_fd=there)).parts[::-1]
                    continue
                # The text of such a link need not be a path.
                there = opened(name, _FIND & ~os.O_NOFOLLOW)
                found = os.fstat(there)
            if stat.S_ISDIR(found.st_mode):
                folder = there
                continue
            if words:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            in_place = of_proc or not stat.S_ISREG(found.st_mode)
            if in_place and not of_proc:
                _check(folder, found)
            yield Place(folder, name, there if in_place else None)
            return
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


def _check(folder: int, found: os.stat_result) -> None:
    """Raises OSError: another user can have put this link, pipe or device there."""
    user, around = os.geteuid(), os.fstat(folder)
    # Root trusts a folder of root's alone; other users, whoever keeps everybody else out of his.
    closed = not around.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and (user or not around.st_uid)
    if found.st_uid not in (0, user) and not closed:
        what = "symbolic link" if stat.S_ISLNK(found.st_mode) else "pipe or device"
        raise OSError(errno.ELOOP, f"it is another user's {what}")


@contextlib.contextmanager
def new_file(place: Place, mode: int = 0o666, *, synced: bool = False) -> Iterator[BinaryIO]:
    """Write to a new file, which has its name when the block ends. Raises OSError; then there is
    no such file. What is in place is written to as it is.
    """
    if place.there is not None:
        handle = os.open(f"/proc/self/fd/{place.there}", os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        with os.fdopen(handle, "wb") as file:
            yield file
        return
    temporary = f".{place.name}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, mode, dir_fd=place.folder)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            if synced:
                file.flush()
                os.fsync(handle)
        rename(temporary, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=place.folder)
        raise


def rename(made: str | Path, place: Place) -> None:
    """Give a file that is complete its name. A relative `made` is in the place's folder."""
    os.replace(made, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)


def lock_file(path: Path) -> int:
    """Open a file to be locked, which only this user can open. Raises OSError."""
    with place_of(path, linked=False) as place:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        return os.open(place.name, flags, 0o600, dir_fd=place.folder)
