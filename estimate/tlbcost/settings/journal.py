# SPDX-License-Identifier: GPL-2.0-or-later
"""The journal of settings that tlbcost changed: former values, owners, and who may change now.

The journal is on the disk before a change is made, so that a crash loses nothing. Everything is
below $TLBCOST_ROOT: a test of a fake machine must not change the real one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError, hint_for
from tlbcost.common.files import Place, new_file
from tlbcost.common.paths import sys_path
from tlbcost.system import process

FOLDER = "/run/tlbcost"
_JOURNAL = "journal.json"
# The lock is in a folder that is closed to others, or they could hold it, too. A link that leads
# nowhere tells them who holds it: "PID START COMMAND".
_PRIVATE, _HOLDER = "private", "changing"
# With a checksum since 2: a byte that flips must not become a setting.
_FORMAT = "tlbcost journal 2"
_POLL_S = 0.1
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, distinguished from a later one of its number by its start, in ticks since boot."""

    pid: int
    start_ticks: int
    command: str

    def alive(self) -> bool:
        return process.start_ticks(self.pid) == self.start_ticks


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `write`: `path` held `before`, and `after` was written; `mount`: of `after`.
    `thp`: `path` is the number and the start of a process whose THP_enabled (proc(5)) was `before`.

    `done`: `after` is the system's value once the change was made, not the one about to be written.
    `kept`: it is meant to outlive its owner.
    """

    kind: Literal["write", "mount", "thp"]
    path: str
    before: str
    after: str
    owner: Owner
    done: bool = False
    kept: bool = False


def myself() -> Owner:
    # Arguments may be secret.
    words = ["tlbcost", *(word for word in sys.argv[1:2] if not word.startswith("-"))]
    return Owner(os.getpid(), process.start_ticks(os.getpid()) or 0, " ".join(words))


def read_journal() -> list[Change]:
    """Changes of this boot, oldest first. Raises TlbcostError; PermissionError if root's."""
    path = sys_path(f"{FOLDER}/{_JOURNAL}")
    try:
        return _changes(_read_own(path))
    except FileNotFoundError:
        return []
    except PermissionError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise TlbcostError(
            f"cannot find out what tlbcost changed: {path}: {why}",
            f"read it, undo the changes in it, then: rm {path}",
            FAILED,
        ) from error


def _read_own(path: Path) -> bytes:
    """A file that nobody but root, or we, can have written. Raises OSError, ValueError."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a file")
        _check_own(found, "it")
        _check_own(path.parent.lstat(), "its folder")
        return file.read()


def _check_own(found: os.stat_result, what: str) -> None:
    """Raises ValueError if somebody else could have written it."""
    if found.st_uid not in (0, os.geteuid()):
        raise ValueError(f"{what} belongs to user {found.st_uid}, who is not trusted")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"{what} can be written by others")


def _changes(text: bytes) -> list[Change]:
    """Raises ValueError, KeyError or TypeError for all that we did not write like that."""
    try:
        document = json.loads(text)
        version, found = document["format"], document["changes"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it is damaged ({error})") from error
    if version != _FORMAT:
        raise ValueError(f"it is of another version of tlbcost ({version}, not {_FORMAT})")
    if document.get("sha256") != _checksum(document.get("boot_id"), found):
        raise ValueError("it is damaged (its checksum is wrong)")
    if document["boot_id"] != _boot_id():
        # Settings and mounts do not survive a reboot.
        return []
    return [Change(**{**each, "owner": Owner(**each["owner"])}) for each in found]


def _checksum(boot_id: str | None, changes: object) -> str:
    text = json.dumps([boot_id, changes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write_journal(changes: list[Change]) -> None:
    """Replace the journal; it is on the disk when this returns. Raises OSError."""
    path = sys_path(f"{FOLDER}/{_JOURNAL}")
    if not changes:
        path.unlink(missing_ok=True)
        return
    found, boot_id = [asdict(change) for change in changes], _boot_id()
    document = {
        "format": _FORMAT,
        "boot_id": boot_id,
        "sha256": _checksum(boot_id, found),
        "changes": found,
    }
    folder = os.open(path.parent, _FOLDER)
    try:
        with new_file(Place(folder, _JOURNAL, None), 0o600, synced=True) as file:
            file.write(json.dumps(document, indent=1).encode() + b"\n")
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def lock(announce: Announce, wait_s: float) -> Iterator[None]:
    """Be the only tlbcost that changes settings; the kernel ends this with the process.

    Raises TlbcostError: exit code 4 if another one has it after `wait_s`, 1 if /run cannot be
    written.
    """
    folder = sys_path(FOLDER)
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        fd = _open_lock(folder)
    except OSError as error:
        raise unwritable(error) from error
    except ValueError as error:
        raise TlbcostError(
            f"cannot record in {folder} what is about to be changed: {error}",
            f"chown root: {folder}; chmod 755 {folder}; rm -r {folder / _PRIVATE}",
            FAILED,
        ) from error
    try:
        _wait_for(lambda: _locked(fd, fcntl.LOCK_EX), announce, wait_s)
        # A run that was killed had not made the change that it was about to note there.
        for left in (*folder.glob(f".{_JOURNAL}.*"), folder / _HOLDER):
            with contextlib.suppress(OSError):
                left.unlink()
        own = myself()
        with contextlib.suppress(OSError):
            (folder / _HOLDER).symlink_to(f"{own.pid} {own.start_ticks} {own.command}")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                (folder / _HOLDER).unlink()
    finally:
        os.close(fd)


def _open_lock(folder: Path) -> int:
    """The lock's file. Raises OSError, and ValueError if others can open it."""
    with contextlib.ExitStack() as stack:
        outer = os.open(folder, _FOLDER)
        stack.callback(os.close, outer)
        _check_own(os.fstat(outer), "it")
        with contextlib.suppress(FileExistsError):
            os.mkdir(_PRIVATE, 0o700, dir_fd=outer)
        inner = os.open(_PRIVATE, _FOLDER, dir_fd=outer)
        stack.callback(os.close, inner)
        found = os.fstat(inner)
        _check_own(found, f"{_PRIVATE} in it")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(f"{_PRIVATE} in it can be opened by others")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open("lock", flags, 0o600, dir_fd=inner)


def _locked(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder() -> Owner | None:
    """Who changes settings now, as everybody may know."""
    try:
        pid, start, command = os.readlink(sys_path(f"{FOLDER}/{_HOLDER}")).split(" ", 2)  # noqa: PTH115
        owner = Owner(int(pid), int(start), command)
    except (OSError, ValueError):
        return None
    return owner if owner.alive() else None


@contextlib.contextmanager
def undisturbed(announce: Announce, wait_s: float) -> Iterator[None]:
    """Keep every tlbcost from changing settings inside the block, except the one that runs us.

    If none ever changed any there is nothing to lock. Users other than root wait until no tlbcost
    changes any, and keep none from it later. Raises TlbcostError with exit code 4 if another one is
    still changing some after `wait_s`.
    """
    try:
        fd = os.open(sys_path(f"{FOLDER}/{_PRIVATE}/lock"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError:
        _wait_for(lambda: _holder() is None, announce, wait_s, shared=True)
        yield
        return
    try:
        _wait_for(lambda: _locked(fd, fcntl.LOCK_SH), announce, wait_s, shared=True)
        yield
    finally:
        os.close(fd)


def _wait_for(
    is_free: Callable[[], bool], announce: Announce, wait_s: float, *, shared: bool = False
) -> None:
    deadline = time.monotonic() + wait_s
    announced = False
    what = "measure" if shared else "change this system's settings"
    while not is_free():
        owner = _holder()
        holder = "another tlbcost" if owner is None else f"process {owner.pid} ({owner.command})"
        if owner is not None and _is_ancestor(owner.pid):
            if shared:
                return
            raise TlbcostError(
                f"cannot {what}: {holder} runs us, and restores them",
                "run this command by itself: it reserves what it needs",
                CANNOT_MEASURE,
            )
        if time.monotonic() >= deadline:
            raise TlbcostError(
                f"cannot {what}: {holder} is changing this system's settings",
                "try again when it has ended",
                CANNOT_MEASURE,
            )
        if not announced:
            announce(f"waiting up to {wait_s:.0f} s: {holder} is changing this system's settings")
            announced = True
        time.sleep(_POLL_S)


def unwritable(error: OSError) -> TlbcostError:
    """The error to raise if the journal cannot be written: nothing was changed then."""
    folder = sys_path(FOLDER)
    hint = hint_for(error.errno, folder)
    return TlbcostError(
        f"cannot record in {folder} what is about to be changed, so nothing was: "
        f"{error.strerror or error}",
        "; ".join([*([hint] if hint else []), "tlbcost pool restore undoes the changes"]),
        FAILED,
    )


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _is_ancestor(pid: int) -> bool:
    parent = os.getppid()
    while parent > 0 and parent != pid:
        found = process.stat(parent)
        parent = found.parent if found is not None else 0
    return parent == pid
