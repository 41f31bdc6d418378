# SPDX-License-Identifier: GPL-2.0-or-later
"""Cleaning up however a command ends, and the signal that ended it."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from tlbcost.common import progress
from tlbcost.common.errors import SIGNAL_BASE

# What ends us, the time limit's signal included.
ENDING = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGALRM)


class Stopped(BaseException):
    """A signal asked us to end; not an Exception, so that no fallback can swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class TimeLimitPassed(Stopped):
    """The time limit has passed: a caller that has enough for an answer may give it."""

    passed = False

    def __init__(self) -> None:
        super().__init__(signal.SIGALRM)
        TimeLimitPassed.passed = True


def check_time() -> None:
    """Begin nothing more once the time limit has passed. Raises TimeLimitPassed."""
    if TimeLimitPassed.passed:
        raise TimeLimitPassed


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """The signals that end us call it; one that our parent has us ignore (nohup) stays ignored."""
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        for number, known in before.items():
            if known != signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """Turn the signals that end us into `Stopped`, so that everything is cleaned up."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise TimeLimitPassed if number == signal.SIGALRM else Stopped(number)

    with _handled(stop):
        yield


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
    """Leave SIGINT to the program: we continue until it ends, to report and to clean up.

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
    """What asks us to end, even a second time, waits until this is done.

    Only the main thread is asked: nothing is deferred in any other.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        arrived.append(number)

    with _handled(note):
        yield
    if arrived:
        signal.raise_signal(arrived[0])
