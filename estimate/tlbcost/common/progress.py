# SPDX-License-Identifier: GPL-2.0-or-later
"""Progress: messages, and one line on a terminal's stderr.

The line is rewritten, and gone at the end. Where stderr is no terminal, or one that cannot erase,
a line is written a minute, and none in the first: short commands stay silent.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

Tick = Callable[[float], None]

_BAR = 20
# Before this much is done, the time left would be a guess.
_TELLING_PERCENT = 5
_MINUTE_S = 60.0
# How much slower the simulated CPU time is, by doc/benchmarks.md.
_SLOWDOWN = 10, 25
_NS = 1e9


class _Stderr:
    """What was written there. `finished`: steps that ended; `running`: those that have not."""

    def __init__(self) -> None:
        self.quiet = False
        self.line = False
        self.spoke_s: float | None = None
        self.finished: list[str] = []
        self.running: list[str] = []

    def is_terminal(self) -> bool:
        return sys.stderr.isatty()

    def rewrites(self) -> bool:
        return self.is_terminal() and os.environ.get("TERM") not in (None, "", "dumb")

    def clear(self) -> None:
        if self.line:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            self.line = False


_STDERR = _Stderr()


def be_quiet() -> None:
    """From now on there is no progress and no message: only reports and errors."""
    _STDERR.quiet = True


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    before = _STDERR.quiet
    _STDERR.quiet = True
    try:
        yield
    finally:
        _STDERR.quiet = before


def is_quiet() -> bool:
    """Whether be_quiet() was called."""
    return _STDERR.quiet


def say(text: str) -> None:
    """Tell the user something that stays, on stderr."""
    if _STDERR.quiet:
        return
    with contextlib.suppress(OSError):
        _STDERR.clear()
        print(f"tlbcost: {text}", file=sys.stderr, flush=True)


def so_far() -> str:
    """What was under way and what had finished, e.g. "during the simulation; finished: ..."."""
    during = f"during the {_STDERR.running[-1]}; " if _STDERR.running else ""
    return f"{during}finished: {', '.join(_STDERR.finished) or 'nothing'}"


class Progress:
    """One step of a command, named as in "finished: calibration"."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._begun: tuple[float, int] | None = None
        if _STDERR.spoke_s is None:
            _STDERR.spoke_s = time.monotonic()

    def __enter__(self) -> Self:
        _STDERR.running.append(self._name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            _STDERR.clear()
        if kind is None:
            _STDERR.running.remove(self._name)
            _STDERR.finished.append(self._name)

    def calibrating(self, percent: int) -> None:
        """How much of the calibration is done."""
        bar = ("=" * (_BAR * percent // 100) + ">")[:_BAR]
        self._show(f"calibrating [{bar:<{_BAR}}] {percent} %{self._left(percent)}")

    def part(self, done: int, of: int) -> None:
        """How much of equal parts is done."""
        percent = 100 * done // of
        self._show(f"{self._name}: {percent} %{self._left(percent)}")

    def simulating(self, cpu_ns: int, wall_ns: int) -> Tick:
        """The ticks of a simulation of what natively took this CPU time and this long.

        How far it is cannot be known: the native run's instructions are not.
        """
        idle_ns = max(0, wall_ns - cpu_ns)
        low, high = ((cpu_ns * factor + idle_ns) / _NS for factor in _SLOWDOWN)

        def tick(seconds: float) -> None:
            usual = f"usually {duration(low)} to {duration(high)}"
            self._show(f"simulating: {duration(seconds)} so far, {usual}")

        return tick

    def _left(self, percent: int) -> str:
        """The time left by what was done since the first call, once that is enough to tell."""
        now = time.monotonic()
        if self._begun is None or percent < self._begun[1]:
            self._begun = now, percent
        start, first = self._begun
        if percent - first < _TELLING_PERCENT:
            return ""
        return f", {duration((now - start) * (100 - percent) / (percent - first))} left"

    def _show(self, text: str) -> None:
        if _STDERR.quiet:
            return
        with contextlib.suppress(OSError):
            if _STDERR.rewrites():
                _STDERR.line = True
                shown = f"tlbcost: {text}"[: _columns() - 1]
                print(f"\r\033[K{shown}", end="", file=sys.stderr, flush=True)
            elif time.monotonic() - (_STDERR.spoke_s or 0) >= _MINUTE_S:
                _STDERR.spoke_s = time.monotonic()
                print(f"tlbcost: {text}", file=sys.stderr, flush=True)


class RunProgress(Progress):
    """Runs of one program: which of how many, and what is left by the time of those that ended."""

    def __init__(self, what: str, of: int) -> None:
        super().__init__(what)
        self._what, self._of = what, of
        self._seconds: list[float] = []

    def expect(self, of: int) -> None:
        """There will be this many runs after all."""
        self._of = of

    @contextlib.contextmanager
    def run(self, *, own_output: bool = False) -> Iterator[Tick | None]:
        """The ticks of one run. With `own_output` a terminal is the program's during the run."""
        start = time.monotonic()
        yield None if own_output and _STDERR.is_terminal() else self._tick
        self._seconds.append(time.monotonic() - start)

    def _tick(self, seconds: float) -> None:
        done = len(self._seconds)
        text = f"{self._what}: run {done + 1} of {max(self._of, done + 1)}, "
        if self._seconds:
            left = sum(self._seconds) / done * (self._of - done) - seconds
            text += f"about {duration(left)} left" if left > 0 else "longer than those before"
        else:
            text += f"{duration(seconds)} so far"
        self._show(text)


def duration(seconds: float) -> str:
    """For people who wait: '12 s', '3 min', '2 h 5 min'."""
    whole = math.ceil(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
