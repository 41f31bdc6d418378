# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a terminal drawn on, and asked for keys, so that it is as it was afterwards?

Whatever ends us, and while Ctrl-Z has us stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING

from tlbcost.common.cleanup import signals_deferred
from tlbcost.common.console import is_styled

if TYPE_CHECKING:
    from rich.text import Text

# What arrows and the like send.
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;]*[@-~]|O.|)")


def can_draw() -> bool:
    """Whether standard output is a terminal that pictures can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")


class Screen:
    """The alternate screen of the terminal. Keys come from standard input, if that is one too."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        styled = is_styled(sys.stdout)
        self._console = Console(
            file=sys.stdout,
            force_terminal=True,
            color_system="standard" if styled else None,
            highlight=False,
            markup=False,
            emoji=False,
        )
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._input: int | None = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._saved = None if self._input is None else termios.tcgetattr(self._input)
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        handlers = {
            signal.SIGWINCH: signal.signal(signal.SIGWINCH, lambda *_: None),
            signal.SIGTSTP: signal.signal(signal.SIGTSTP, self._stop),
        }
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        try:
            self._enter()
            yield
        finally:
            with signals_deferred():
                self._leave()
                signal.set_wakeup_fd(-1)
                for number, handler in handlers.items():
                    signal.signal(number, handler)
                os.close(self._woken)
                os.close(self._wake)

    def _enter(self) -> None:
        if self._input is not None:
            tty.setcbreak(self._input, termios.TCSADRAIN)
        self._live.start()

    def _leave(self) -> None:
        # The terminal may be gone.
        with contextlib.suppress(OSError):
            self._live.stop()
        if self._input is not None and self._saved is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._input, termios.TCSADRAIN, self._saved)

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Ctrl-Z: the shell gets its terminal back until we continue."""
        self._leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stop)
        self._enter()

    def draw(self, picture: Callable[[int, int], Text]) -> None:
        width, height = self._console.size
        self._live.update(picture(width, height), refresh=True)

    def keys(self, until: float) -> str:
        """What was typed, as soon as it is; empty: nothing until this time (time.monotonic), or
        the terminal changed.
        """
        waiting = [self._woken, *([] if self._input is None else [self._input])]
        ready, _, _ = select.select(waiting, [], [], max(until - time.monotonic(), 0))
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 512)
        if self._input not in ready or self._input is None:
            return ""
        typed = os.read(self._input, 512)
        if not typed:
            # The terminal is gone.
            self._input = None
        return _SEQUENCE.sub(b"", typed).decode(errors="replace")
