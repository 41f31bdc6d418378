# SPDX-License-Identifier: GPL-2.0-or-later
"""What has tlbcost changed on this system, what were the former values, and who may change it now?

The journal is on the disk before a change is made, so that a crash loses nothing. Everything is
below $TLBCOST_ROOT: a test of a fake machine must not change the real one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from tlbcost.common.causes import hint_for
from tlbcost.common.errors import CANNOT_MEASURE, FAILED, TlbcostError
from tlbcost.system.machine import sys_path

FOLDER = "/run/tlbcost"
# The second: the journal as it will be, until it is complete.
_JOURNAL, _NEXT = "journal.json", "journal.new"
# With a checksum since 2: a byte that flips must not become a setting.
_FORMAT = "tlbcost journal 2"
_POLL_S = 0.1

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, distinguished from a later one of its number by its start, in ticks since boot."""

    pid: int
    start_ticks: int
    command: str

    def alive(self) -> bool:
        """Whether it still runs."""
        return start_ticks(self.pid) == self.start_ticks


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
    """This process."""
    words = ["tlbcost", *sys.argv[1:]]
    return Owner(os.getpid(), start_ticks(os.getpid()) or 0, shlex.join(words))


def read_journal() -> list[Change]:
    """The changes of this boot that are not undone, oldest first; needs no root.

    Raises TlbcostError if there is a journal that cannot be read.
    """
    path = sys_path(f"{FOLDER}/{_JOURNAL}")
    try:
        return _changes(_read_own(path))
    except FileNotFoundError:
        return []
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
        _check_own(path.parent.stat(), "its folder")
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
    temporary = path.with_name(_NEXT)
    try:
        # What a run that lost its power left there, or a link, is not written to.
        temporary.unlink(missing_ok=True)
        with temporary.open("x", encoding="utf-8") as file:
            file.write(json.dumps(document, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def lock(announce: Announce, wait_s: float) -> Iterator[None]:
    """Be the only tlbcost that changes settings; the kernel ends this with the process.

    Raises TlbcostError: exit code 4 if another one has it after `wait_s`, 1 if /run cannot be
    written.
    """
    path = sys_path(f"{FOLDER}/lock")
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        _check_own(path.parent.stat(), "it")
        # Unbuffered: a full disk would make flushing at close fail.
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise unwritable(error) from error
    except ValueError as error:
        raise TlbcostError(
            f"cannot record in {path.parent} what is about to be changed: {error}",
            f"chown root: {path.parent}; chmod 755 {path.parent}",
            FAILED,
        ) from error
    with file:
        _wait_for(file.fileno(), path, announce, wait_s)
        # A run that was killed had not made the change that it was about to note there.
        with contextlib.suppress(OSError):
            path.with_name(_NEXT).unlink(missing_ok=True)
        # Only for the message of a waiting process: the lock itself is the kernel's.
        with contextlib.suppress(OSError):
            file.truncate(0)
            file.write(f"{os.getpid()} ({myself().command})".encode())
        yield
        with contextlib.suppress(OSError):
            file.truncate(0)


@contextlib.contextmanager
def undisturbed(announce: Announce, wait_s: float) -> Iterator[None]:
    """Keep every tlbcost from changing settings inside the block, except the one that runs us.

    If none ever changed any there is nothing to lock. Raises TlbcostError with exit code 4 if
    another one is still changing some after `wait_s`.
    """
    path = sys_path(f"{FOLDER}/lock")
    try:
        file = path.open("rb", buffering=0)
    except OSError:
        yield
        return
    with file:
        _wait_for(file.fileno(), path, announce, wait_s, shared=True)
        yield


def _wait_for(
    fd: int, path: Path, announce: Announce, wait_s: float, *, shared: bool = False
) -> None:
    deadline = time.monotonic() + wait_s
    announced = False
    what = "measure" if shared else "change this system's settings"
    while True:
        try:
            fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        else:
            return
        holder = "another tlbcost"
        with contextlib.suppress(OSError):
            # Empty for a moment after it was taken.
            words = path.read_text(encoding="utf-8", errors="replace")
            holder = f"process {words}" if words else holder
        pid = holder.removeprefix("process ").partition(" ")[0]
        if pid.isdigit() and _is_ancestor(int(pid)):
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
        fields = _stat(parent)
        parent = int(fields[1]) if fields else 0
    return parent == pid


def start_ticks(pid: int) -> int | None:
    """When it started, in clock ticks since boot; None: it is gone."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat from the state on; nothing if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    # The name, in parentheses, may hold anything.
    return text.rpartition(")")[2].split()
