# SPDX-License-Identifier: GPL-2.0-or-later
"""Which phase of a program is meant, and what did that phase alone cost in a run?

A region is from each time the program comes to its start until it comes to its end, or ends. All
engines are given the same places: an offset in a file, so that an address space is no matter.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from tlbcost.common import formats
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.table import count, read_table
from tlbcost.run.outcome import Outcome

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
