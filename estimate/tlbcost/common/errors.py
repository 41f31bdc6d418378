# SPDX-License-Identifier: GPL-2.0-or-later
"""Failures that a user can do something about: exit codes, and hints by error number."""

from __future__ import annotations

import errno
import resource
import shlex
import shutil
import signal
from pathlib import Path

FAILED = 1
USAGE = 2
CONDITION_HOLDS = 3
CANNOT_MEASURE = 4
INTERNAL_ERROR = 70
TOOL_FAILED = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNAL_BASE = 128


class TlbcostError(Exception):
    """What failed and why, and what to type next; printed in one place, `__main__`."""

    def __init__(self, message: str, hint: str | None = None, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code


# With less our own programs cannot run.
_LEAST_STACK_BYTES = 512 << 10
_LEAST_MEMORY_BYTES = 1 << 30
_LEAST_FILES = 32
_LEAST_FREE_BYTES = 1 << 20


def hint_for(number: int | None, path: Path | None = None) -> str | None:
    """What to type after this error number (errno) of a call about `path`; None: nothing known."""
    folder = None if path is None else path if path.is_dir() else path.parent
    place = "" if folder is None else f" {shlex.quote(str(folder))}"
    match number:
        case errno.ENOSPC:
            full = folder is None or _free_bytes(folder) < _LEAST_FREE_BYTES
            return f"df {'-h' if full else '-i'}{place} shows what is full"
        case errno.EDQUOT:
            return "quota -s shows the quota that is used up"
        case errno.EFBIG:
            return "ulimit -f unlimited"
        case errno.EMFILE:
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            most = "unlimited" if hard == resource.RLIM_INFINITY else hard
            return f"ulimit -n {most}: too many files are open"
        case errno.ENFILE:
            return "sysctl fs.file-max: the system has too many files open"
        case errno.EAGAIN:
            return "ulimit -u shows how many processes this user may have"
        case errno.ENOMEM:
            return _memory_hint()
        case errno.EROFS | errno.EACCES | errno.EPERM | errno.ENOENT | errno.ENOTDIR:
            return "choose a directory that you can write to"
        case errno.ENAMETOOLONG:
            return "choose a shorter name"
        case errno.EBADF:
            return "write it to a file: >FILE"
        case errno.EIO | errno.ENXIO | errno.ENODEV:
            return "dmesg | tail shows what the device said"
        case _:
            return None


def tool_error(what: str, tool: str, code: int, folder: Path) -> TlbcostError:
    """`tool`, one of our own programs, ended without its table in `folder`: code as of Popen."""
    how = f"was killed by {_name(-code)}" if code < 0 else f"exited with {code}"
    return TlbcostError(f"{what}: {tool} {how}", _tool_hint(code, folder), TOOL_FAILED)


def _tool_hint(code: int, folder: Path) -> str | None:
    memory = _limit(resource.RLIMIT_AS)
    if _limit(resource.RLIMIT_NOFILE) < _LEAST_FILES:
        return hint_for(errno.EMFILE)
    if -code == signal.SIGXFSZ:
        return "ulimit -f unlimited"
    if -code == signal.SIGXCPU:
        return "ulimit -t unlimited"
    if memory < _LEAST_MEMORY_BYTES:
        return _memory_hint()
    if -code == signal.SIGKILL:
        return "dmesg | tail shows whether the kernel ended it for lack of memory"
    return full_disk_hint(folder)


def full_disk_hint(folder: Path) -> str | None:
    """Where next to nothing is free there, what shows it."""
    return hint_for(errno.ENOSPC, folder) if _free_bytes(folder) < _LEAST_FREE_BYTES else None


def check_stack() -> None:
    """Refuse a limit of stacks that Python and its packages overrun, which nothing can catch."""
    limit = _limit(resource.RLIMIT_STACK)
    if limit < _LEAST_STACK_BYTES:
        raise TlbcostError(
            f"cannot run tlbcost: the limit of stacks is {limit >> 10} KiB",
            "ulimit -s 8192",
            TOOL_FAILED,
        )


def memory_error(what: str) -> TlbcostError:
    """There is no memory for `what` is being done."""
    return TlbcostError(f"{what}: not enough memory", _memory_hint(), TOOL_FAILED)


def is_short_of_memory() -> bool:
    """Whether a limit of this process's memory explains what fails otherwise."""
    return min(_limit(resource.RLIMIT_AS), _limit(resource.RLIMIT_DATA)) < _LEAST_MEMORY_BYTES


def _memory_hint() -> str:
    limit = min(_limit(resource.RLIMIT_AS), _limit(resource.RLIMIT_DATA))
    if limit < 16 * _LEAST_MEMORY_BYTES:
        option = "-v" if _limit(resource.RLIMIT_AS) == limit else "-d"
        return f"ulimit {option} unlimited: the limit of memory is {limit >> 10} KiB"
    return "free -h shows what memory is left"


def _limit(kind: int) -> int:
    soft, _ = resource.getrlimit(kind)
    return 1 << 62 if soft == resource.RLIM_INFINITY else soft


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 1 << 62


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
