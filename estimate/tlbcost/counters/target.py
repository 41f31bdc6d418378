# SPDX-License-Identifier: GPL-2.0-or-later
"""Whose events are counted, and how is a target watched that is not ours to start?"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from tlbcost.counters.diagnosis import Scope
from tlbcost.run import process_tree
from tlbcost.system import hints


@dataclass(frozen=True, slots=True)
class Target:
    """Whose events are counted: `pid` with scope `process`, `cgroup` with scope `cgroup`."""

    scope: Scope = "program"
    pid: int | None = None
    cgroup: str | None = None

    def options(self) -> list[str]:
        """Of tlbcost-count."""
        if self.scope == "process":
            return ["--pid", str(self.pid)]
        if self.scope == "cgroup":
            return ["--cgroup", str(self.cgroup)]
        return ["--all-cpus"] if self.scope == "system" else []

    def words(self) -> str | None:
        """For reports; None: a program of ours."""
        if self.scope == "process":
            return f"process {self.pid}"
        if self.scope == "cgroup":
            return f"cgroup {self.cgroup}"
        return "the whole system" if self.scope == "system" else None


PROGRAM_ITSELF = Target()


def watch(words: Sequence[str]) -> int:
    """Run a tool (tlbcost-count, perf) until its target ends or SIGINT; its exit code, or the
    signal that ended it, negative.

    Raises TlbcostError with exit code 125 if it is not there.
    """
    with _interrupts_for() as receive:
        try:
            # In a process group of its own, so that it gets Ctrl-C once, from us.
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, process_group=0)
        except OSError as error:
            raise hints.cannot_run(words[0], error) from error
        try:
            receive(process)
            return process.wait()
        except BaseException:
            process_tree.end(process)
            raise


@contextlib.contextmanager
def _interrupts_for() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """SIGINT goes to the process that is given, also one that came before it was given."""
    waiting = False
    receiver: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal waiting
        waiting = receiver is None
        if receiver is not None:
            receiver.send_signal(signal.SIGINT)

    def receive(process: subprocess.Popen[bytes]) -> None:
        nonlocal receiver
        receiver = process
        if waiting:
            process.send_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, pass_on)
    try:
        yield receive
    finally:
        signal.signal(signal.SIGINT, before)
