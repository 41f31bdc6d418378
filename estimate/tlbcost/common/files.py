# SPDX-License-Identifier: GPL-2.0-or-later
"""Our own files in folders where others may write, removed even if a run was killed.

Every run makes folders of one kind, and first removes those that dead runs of the same user left:

    tlbcost-run-XXXXXXXX/     ours, searchable by others: under sudo `files` is the calling user's
        lock                  locked (flock) while the run lives; the kernel ends that with it
        files/                what the run works with

Valgrind has files of its own, valgrind_proc_PID_WHAT_XXXXXXXX, which it removes as soon as it has
opened them, unless it is killed just then.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tlbcost.common.cleanup import signals_deferred
from tlbcost.common.errors import TOOL_FAILED, TlbcostError, hint_for

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


_PREFIX = "tlbcost-run-"
_NAME = re.compile(rf"\.?{_PREFIX}[a-z0-9_]{{8}}")
_LOCK, _FILES = "lock", "files"
_VALGRINDS = re.compile(r"valgrind_proc_([0-9]+)_[a-z]+_[0-9a-f]{8}")
_ATTEMPTS = 20


@contextlib.contextmanager
def temporary_folder(next_to: Path | None = None) -> Iterator[Path]:
    """A folder for our own files, gone afterwards however it ends.

    In TMPDIR, or in the folder of `next_to`, for a file that will be renamed to it. After SIGKILL
    the next run removes it. Raises TlbcostError with exit code 125 if none can be made.
    """
    if next_to is None:
        chosen = os.environ.get("TMPDIR")
        if chosen and not (Path(chosen).is_dir() and os.access(chosen, os.W_OK | os.X_OK)):
            # Python would take another folder in silence, and Valgrind would give up.
            raise TlbcostError(
                "cannot write temporary files: "
                f"TMPDIR is {chosen}, not a folder that can be written",
                "unset TMPDIR",
                TOOL_FAILED,
            )
    try:
        below = temporary_place() if next_to is None else next_to.parent
        remove_left(below)
        folder, lock = _make(below, hidden=next_to is not None)
    except OSError as error:
        raise TlbcostError(
            f"cannot make a temporary folder: {error.strerror}",
            hint_for(error.errno, _known(next_to)),
            TOOL_FAILED,
        ) from error
    try:
        yield folder / _FILES
    finally:
        with signals_deferred():
            _remove(folder)
            os.close(lock)


def remove_left(below: Path) -> None:
    """Remove what runs of this user left in `below` when they were killed; reports no error."""
    with contextlib.suppress(OSError):
        for name in os.listdir(below):  # noqa: PTH208  # no stat() of each of them
            with contextlib.suppress(OSError):
                if _NAME.fullmatch(name):
                    _remove_if_left(below / name)
                elif match := _VALGRINDS.fullmatch(name):
                    _remove_valgrinds(below / name, int(match[1]))


def temporary_place() -> Path:
    """TMPDIR, even a full one: Python would take another folder in silence. Raises OSError."""
    chosen = os.environ.get("TMPDIR")
    return Path(chosen).absolute() if chosen else Path(tempfile.gettempdir())


def _known(next_to: Path | None) -> Path | None:
    with contextlib.suppress(OSError):
        return temporary_place() if next_to is None else next_to
    return None


def _make(below: Path, *, hidden: bool) -> tuple[Path, int]:
    """A new folder, and its lock. Raises OSError; then there is none."""
    prefix = f".{_PREFIX}" if hidden else _PREFIX
    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=below))
        try:
            lock = _lock(folder)
            if lock is None:
                # Another run took it for one that was left, and removes it.
                continue
            try:
                (folder / _FILES).mkdir(mode=0o700)
                folder.chmod(0o711)
            except BaseException:
                os.close(lock)
                raise
        except BaseException:
            _remove(folder)
            raise
        return folder, lock
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _lock(folder: Path) -> int | None:
    """The lock of a folder just made; None: another run was faster."""
    try:
        lock = os.open(
            folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_nlink:
            return lock
    except BlockingIOError:
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def _remove_if_left(folder: Path) -> None:
    """Remove it if it is ours alone, and no living run's. Raises OSError."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or not _is_ours_alone(found):
        return
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        # Killed before it made the lock, or after it removed it. One that is about to make it
        # notices, and makes another folder.
        folder.rmdir()
        return
    try:
        file = os.fstat(lock)
        if stat.S_ISREG(file.st_mode) and _is_ours_alone(file):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
    finally:
        os.close(lock)


def _remove_valgrinds(file: Path, pid: int) -> None:
    """Remove it if it is this user's, of a Valgrind that is dead. Raises OSError."""
    found = file.lstat()
    if stat.S_ISREG(found.st_mode) and _is_ours_alone(found) and not Path(f"/proc/{pid}").exists():
        file.unlink()


def _is_ours_alone(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _remove(folder: Path) -> None:
    """Remove it; what cannot be removed stays with its lock file, for the next run.

    rmtree() follows no link, not even one that is put there at this moment.
    """
    with contextlib.suppress(OSError):
        shutil.rmtree(folder / _FILES, ignore_errors=True)
        if not (folder / _FILES).exists():
            (folder / _LOCK).unlink(missing_ok=True)
            folder.rmdir()
