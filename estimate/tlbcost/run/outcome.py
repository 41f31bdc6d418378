# SPDX-License-Identifier: GPL-2.0-or-later
"""How a run of a program, or one phase of it, ended, and what it cost.

A region is from each time the program comes to its start until it comes to its end, or ends. All
engines are given the same places: an offset in a file, so that an address space is no matter.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tlbcost.common import formats, units
from tlbcost.common.document import amount
from tlbcost.common.errors import CANNOT_MEASURE, SIGNAL_BASE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.formats import count, read_table


@dataclass(frozen=True, slots=True)
class Run:
    """One native execution of the program and the children it waited for."""

    wall_ns: Annotated[int, amount("elapsed time")]
    user_ns: Annotated[int, amount("CPU time in user mode")]
    system_ns: Annotated[int, amount("CPU time in the kernel")]
    minor_faults: Annotated[int, amount("page faults that read no file")]
    major_faults: Annotated[int, amount("page faults that did")]
    max_rss_bytes: Annotated[int, amount("peak resident memory of one process")]
    waited_ns: Annotated[
        int | None,
        amount("time its threads were ready to run, but waited for a CPU; null: not known"),
    ] = None

    @property
    def cpu_ns(self) -> int:
        """CPU time of all its processes: what shares refer to."""
        return self.user_ns + self.system_ns

    @property
    def waited_fraction(self) -> float | None:
        """The part of the time in which it could have run that it waited; None: not known."""
        if self.waited_ns is None or not self.cpu_ns + self.waited_ns:
            return None
        return self.waited_ns / (self.cpu_ns + self.waited_ns)

    @property
    def idle_ns(self) -> int | None:
        """Time in which it neither ran nor waited for a CPU; None: not known.

        With several threads at once, as much of it as is certain: they may also have been idle
        together while the clock counts the time of another one twice.
        """
        if self.waited_ns is None:
            return None
        return max(0, self.wall_ns - self.cpu_ns - self.waited_ns)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run and how it ended. Exactly one of the last three is not None.

    `memory_limit_bytes`: the limit, if the kernel killed something because of it during the run
    (0 if the limit itself is not known).
    """

    run: Run | None
    last_words: str
    memory_limit_bytes: int | None
    exit_code: int | None
    signal: int | None
    exec_errno: int | None

    @property
    def failed(self) -> bool:
        return self.exit_code != 0

    @property
    def code(self) -> int:
        if self.signal is not None:
            return SIGNAL_BASE + self.signal
        return self.exit_code if self.exit_code is not None else TOOL_FAILED

    def describe(self) -> str:
        """How it ended, in words: 'exited with 3', 'was killed by SIGSEGV'."""
        if self.signal is None:
            return f"exited with {self.exit_code}"
        if self.signal == signal.SIGKILL and self.memory_limit_bytes is not None:
            return f"was killed at {describe_limit(self.memory_limit_bytes)}"
        try:
            return f"was killed by {signal.Signals(self.signal).name}"
        except ValueError:
            return f"was killed by signal {self.signal}"


def describe_limit(limit_bytes: int) -> str:
    """'its memory limit (400 MiB, cgroup)'."""
    if not limit_bytes:
        return "its cgroup's memory limit"
    return f"its memory limit ({units.size(limit_bytes)}, cgroup)"


def check_outcome(
    name: str, outcome: Outcome, before: Sequence[Outcome], *, ignore_failure: bool
) -> None:
    """Raise TlbcostError with the program's exit code if it failed, unless `ignore_failure`."""
    if outcome.failed and not ignore_failure:
        raise _failure(name, outcome, before)


def _failure(name: str, outcome: Outcome, before: Sequence[Outcome]) -> TlbcostError:
    if before:
        words = outcome.last_words.strip().splitlines()
        return TlbcostError(
            f"no estimate: {name} cannot be repeated: run 1 succeeded, run {len(before) + 1} "
            + outcome.describe()
            + (f": {words[-1]}" if words else ""),
            "--prepare CMD restores before each run what the program changes; --runs 1 times "
            "it once, but its simulation repeats it too",
            outcome.code,
        )
    if outcome.signal == signal.SIGKILL and outcome.memory_limit_bytes is not None:
        hint = "raise the limit, or give the program less to do"
    else:
        hint = "fix the program, or use --ignore-failure to estimate it all the same"
    return TlbcostError(f"no estimate: {name} {outcome.describe()}", hint, outcome.code)


def read_outcome(path: Path, memory_limit_bytes: int | None) -> Outcome:
    """Read a run table; `memory_limit_bytes` as in Outcome. Raises TlbcostError."""
    table = read_table(path, formats.RUN)
    if len(table.rows) != 1:
        raise TlbcostError(f"{path}: {len(table.rows)} rows, expected 1", None, TOOL_FAILED)
    cells = {name: count(cell) for name, cell in table.records()[0].items()}
    words = ""
    with contextlib.suppress(OSError):
        words = Path(f"{path}.stderr").read_text(encoding="utf-8", errors="replace")
    times = [cells[name] for name in formats.RUN.columns[:6]]
    known = [value for value in times if value is not None]
    return Outcome(
        replace(Run(*known), waited_ns=cells["waited_ns"]) if len(known) == len(times) else None,
        words,
        memory_limit_bytes,
        cells["exit_code"],
        cells["signal"],
        cells["exec_errno"],
    )


# Each time, the program stops twice natively, and Valgrind translates its code again.
MOST_TIMES = 1000


@dataclass(frozen=True, slots=True)
class Region:
    """A phase as START:END, and its places ('OFFSET:FILE'). `ends` empty: it ends as the program
    does.
    """

    text: str
    starts: tuple[str, ...]
    ends: tuple[str, ...] = ()

    def options(self, start: str, end: str) -> list[str]:
        return [f"{start}={each}" for each in self.starts] + [f"{end}={each}" for each in self.ends]

    def tool(self, table: Path) -> tuple[str, ...]:
        return ("tlbcost-region", *self.options("--start", "--end"), "--region", str(table))

    def outcome(self, whole: Outcome, table: Path) -> Outcome:
        """The run with the region's costs. Raises TlbcostError, 4, if it did not begin, or end."""
        run = whole.run
        if run is None:
            return whole
        [row] = read_table(table, formats.REGION).records()
        cells = {name: count(cell) for name, cell in row.items()}
        begins, ends = cells["begins"], cells["ends"]
        if begins is None or ends is None:
            raise TlbcostError(f"{table}: not a region", None, TOOL_FAILED)
        start, end = names_of(self.text)
        if not begins:
            ended = f"; it {whole.describe()}" if whole.failed else ""
            raise TlbcostError(
                f"the region never began: the program did not reach {start}{ended}",
                "a call may be inlined (__attribute__((noinline))), and only the process that is "
                "started is watched, not its children",
                CANNOT_MEASURE,
            )
        if begins > MOST_TIMES:
            raise TlbcostError(
                f"the region begins more than {MOST_TIMES:,} times: each takes time itself",
                "choose a function that is called less often, such as its caller",
                CANNOT_MEASURE,
            )
        if self.ends and ends < begins:
            raise TlbcostError(
                f"the region never ended: after {start} the program did not reach {end}",
                "leave the end out if the program's end is the region's",
                CANNOT_MEASURE,
            )
        names = ("wall_ns", "user_ns", "system_ns", "minor_faults", "major_faults")
        known = {name: value for name in names if (value := cells[name]) is not None}
        if len(known) < len(names):
            raise TlbcostError(
                "the region's time is not known: the program was killed in it",
                "give the region an end that it reaches",
                CANNOT_MEASURE,
            )
        return replace(whole, run=replace(run, **known, waited_ns=None))


def names_of(text: str) -> tuple[str, str]:
    """START and END of a region; END may be empty. Raises TlbcostError with exit code 2."""
    # Two colons are a part of names in C++ and Rust.
    start, *rest = re.split("(?<!:):(?!:)", text)
    if not start or len(rest) > 1:
        raise TlbcostError(
            f"not a region: {text!r}", "--region START:END, where END may be empty", USAGE
        )
    return start, rest[0] if rest else ""


def region_words(text: str) -> str:
    start, end = names_of(text)
    return f"from {start} to {end}" if end else f"from {start} on"


def trial_command(text: str | None) -> str:
    """What a trial of the region is typed as, up to its other options; None: of all of it."""
    return "tlbcost trial" if text is None else f"tlbcost trial --region {shlex.quote(text)}"
