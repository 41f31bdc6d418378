# SPDX-License-Identifier: GPL-2.0-or-later
"""What is undone however a command ends: temporary files, and what a signal interrupts?"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from tlbcost.common import progress
from tlbcost.common.causes import hint_for
from tlbcost.common.errors import SIGNAL_BASE, TOOL_FAILED, TlbcostError

# What ends us, the time limit's signal included.
ENDING = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGALRM)


class Stopped(BaseException):
    """A signal asked us to end; not an Exception, so that no fallback can swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class TimeLimitPassed(Stopped):
    """The time of --time-limit is over: who has enough for an answer may give it."""

    passed = False

    def __init__(self) -> None:
        super().__init__(signal.SIGALRM)
        TimeLimitPassed.passed = True


def check_time() -> None:
    """Begin nothing more once the time limit has passed. Raises TimeLimitPassed."""
    if TimeLimitPassed.passed:
        raise TimeLimitPassed


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Turn the signals that end us into `Stopped`, so that everything is cleaned up.

    A signal that our parent has us ignore (nohup) stays ignored.
    """

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise TimeLimitPassed if number == signal.SIGALRM else Stopped(number)

    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def until_stopped(command: Callable[[], int], limit_s: float | None = None) -> int:
    """The exit code of a command; where a signal ends it, it cleans up, says so, and exits so.

    After `limit_s` seconds SIGALRM ends it, and what was finished is said.
    """
    TimeLimitPassed.passed = False
    try:
        with signals_raise():
            if limit_s is not None:
                signal.setitimer(signal.ITIMER_REAL, limit_s)
            try:
                return command()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    except TimeLimitPassed as stop:
        _complain(f"the time limit passed {progress.so_far()}")
        _complain("hint: give it a longer --time-limit, or the program less to do")
        return SIGNAL_BASE + stop.number
    except Stopped as stop:
        _complain(f"ended by {signal.Signals(stop.number).name}")
        return SIGNAL_BASE + stop.number


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"tlbcost: {text}", file=sys.stderr)


@contextlib.contextmanager
def sigint_left_to_the_program() -> Iterator[Callable[[], bool]]:
    """SIGINT is the program's: we go on until it ends, for what is still to be reported or undone.

    Gives a function that says whether there was one.
    """
    interrupted = False

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal interrupted
        interrupted = True

    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: interrupted
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """What asks us to end, even a second time, waits until this is done."""
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        arrived.append(number)

    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        for number, handler in before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if arrived:
        signal.raise_signal(arrived[0])


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for our own files, gone afterwards however it ends.

    Raises TlbcostError with exit code 125 if none can be made.
    """
    chosen = os.environ.get("TMPDIR")
    if chosen and not (Path(chosen).is_dir() and os.access(chosen, os.W_OK | os.X_OK)):
        # Python would take another folder in silence, and Valgrind would give up.
        raise TlbcostError(
            f"cannot write temporary files: TMPDIR is {chosen}, not a folder that can be written",
            "unset TMPDIR",
            TOOL_FAILED,
        )
    try:
        folder = tempfile.TemporaryDirectory(prefix="tlbcost-", ignore_cleanup_errors=True)
    except OSError as error:
        raise TlbcostError(
            f"cannot make a temporary folder: {error.strerror}",
            hint_for(error.errno, Path(tempfile.gettempdir())),
            TOOL_FAILED,
        ) from error
    with folder as name:
        yield Path(name)
