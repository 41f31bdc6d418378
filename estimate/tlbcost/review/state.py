# SPDX-License-Identifier: GPL-2.0-or-later
"""What has a review finished? A folder with one file for each task, complete or not there."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tlbcost.common.causes import hint_for
from tlbcost.common.document import from_json, to_json
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.files import lock_file
from tlbcost.common.output import write_file
from tlbcost.review.task import Task, TaskResult

_LOCK = "lock"
_SUFFIX = ".task.json"


class State:
    """The folder of one review."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def finished(self, task: Task) -> TaskResult | None:
        """What an earlier review of the same plan found; None: nothing, or of another plan."""
        try:
            found = from_json(self._file(task).read_bytes(), TaskResult)
        except (OSError, msgspec.DecodeError):
            return None
        return found if found.plan == task.plan and found.failure is None else None

    def keep(self, task: Task, result: TaskResult) -> None:
        """Write it so that it is whole or not there. Raises TlbcostError."""
        try:
            write_file(self._file(task), to_json(result))
        except OSError as error:
            raise _refused(self.folder, error) from error

    def _file(self, task: Task) -> Path:
        # Names of services may hold anything.
        name = hashlib.sha256(f"{task.service.name}\0{task.machine_name}".encode()).hexdigest()
        return self.folder / f"{name[:32]}{_SUFFIX}"


@contextlib.contextmanager
def state_in(folder: Path, *, resume: bool) -> Iterator[State]:
    """The folder, ours alone. Raises TlbcostError: it is another's, or has results already."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_file(folder / _LOCK)
    except OSError as error:
        raise _refused(folder, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TlbcostError(
                f"{folder} is in use by another review", "--state with another folder", USAGE
            ) from error
        if not resume and any(folder.glob(f"*{_SUFFIX}")):
            raise TlbcostError(
                f"{folder} has results of an earlier review",
                "--resume to use them, or --state with another folder",
                USAGE,
            )
        for left in folder.glob(f".*{_SUFFIX}.*"):
            left.unlink(missing_ok=True)
        yield State(folder)
    finally:
        os.close(lock)


def _refused(folder: Path, error: OSError) -> TlbcostError:
    why = error.strerror or str(error)
    return TlbcostError(
        f"cannot save results in {folder}: {why}", hint_for(error.errno, folder), TOOL_FAILED
    )
