# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the output of `perf stat` for people say?

Numbers have the thousands separators of the locale they were printed in; a count is an integer,
and only one with a unit has decimals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tlbcost.common.errors import TlbcostError
from tlbcost.counters.importing.printed_counts import (
    NOT_COUNTED,
    FileFacts,
    PrintedCount,
    last_time,
    number,
    percent,
    refused,
)

_TITLE = re.compile(r"\s*Performance counter stats for (?P<what>.*?):?\s*")
_COMMAND = re.compile(r"'(?P<command>.*)'(?: \((?P<runs>[0-9]+) runs\))?", re.ASCII)
INTERVALS = re.compile(r"#\s+time\s+(?:\S+\s+)*counts\s+unit\s+events\s*")
# French and Swiss locales separate thousands with these.
_SPACES = "\u00a0\u202f\u2009"
_NUMBER = rf"[0-9](?:[0-9.,'\u2019{_SPACES}]*[0-9])?"
_ROW = re.compile(
    rf"\s*(?:(?P<time>[0-9]+[.,][0-9]+)\s+)?"
    rf"(?:(?P<part>[A-Za-z]\S*(?:-[0-9]+|[0-9]))\s+(?:(?P<cpus>[0-9]+)\s+)?)?"
    rf"(?P<value>{_NUMBER}|<not counted>|<not supported>)\s+"
    r"(?:(?P<unit>msec|nsec|usec|ns|sec|Joules|[KMG]?i?Bytes|[KMG]iB|C)\s+)?"
    r"(?P<event>[A-Za-z]\S*)"
    r"(?:\s+\((?P<old_unit>msec)\))?"
    r"(?:\s+(?P<cgroup>[^\s#(]\S*))?"
    r"(?P<rest>(?:\s+[#(].*|\s*))",
    re.ASCII,
)
_RUNNING = re.compile(r"\(\s*(?P<percent>[0-9]+[.,][0-9]+)\s*%\)", re.ASCII)
_TIMES = re.compile(
    rf"\s*(?P<value>{_NUMBER})(?:\s+\+-\s+{_NUMBER})?\s+seconds (?P<what>time elapsed|user|sys)"
    r"(?:\s.*)?",
    re.ASCII,
)
# What perf adds below: advice on the NMI watchdog, and metrics of the row above.
_ADVICE = re.compile(r"\s*(?:#.*|Some events weren't counted.*|echo [01] > .*|perf stat \.\.\.)")
_COUNT = re.compile(
    rf"[0-9]+|[0-9]{{1,3}}(?:(?P<s>[.,'\u2019{_SPACES}])[0-9]{{3}}(?:(?P=s)[0-9]{{3}})*)"
)


@dataclass(slots=True)
class _Block:
    """One output: its title's words, rows and footer."""

    what: str | None
    readings: list[PrintedCount] = field(default_factory=list)
    times_ns: dict[str, int] = field(default_factory=dict)


def is_start(text: str) -> bool:
    """Whether perf's output for people begins on this line."""
    return _TITLE.fullmatch(text) is not None or INTERVALS.fullmatch(text) is not None


def parse(
    name: str, lines: Sequence[tuple[int, str]]
) -> list[tuple[list[PrintedCount], FileFacts]]:
    """The outputs in the file, one or several; what a program wrote before them is left out.

    `lines` have their numbers; raises TlbcostError naming the first bad one.
    """
    blocks: list[_Block] = []
    before = 0
    for line, text in lines:
        title = _TITLE.fullmatch(text)
        if title is not None:
            if blocks and blocks[-1].what is None:
                # Below the intervals, --summary prints their sum.
                blocks.pop()
            blocks.append(_Block(title["what"]))
        elif INTERVALS.fullmatch(text):
            # It is repeated every 25 intervals.
            blocks = blocks or [_Block(None)]
        elif not blocks:
            before += not text.startswith("#")
        elif not text.strip() or _ADVICE.fullmatch(text):
            continue
        else:
            _line(name, line, text, blocks[-1])
    found = [(block.readings, _facts(name, block, before)) for block in blocks]
    for readings, _ in found:
        if not readings:
            raise TlbcostError(f"cannot read counts from {name}: no event is in perf's output")
    return found


def _line(name: str, line: int, text: str, block: _Block) -> None:
    times = _TIMES.fullmatch(text)
    row = None if times else _ROW.fullmatch(text)
    try:
        if times is not None:
            block.times_ns[times["what"]] = round(1e9 * number(_decimal(times["value"])))
        elif row is not None:
            block.readings.append(_reading(line, row))
        else:
            raise ValueError("expected a count and an event's name")
    except ValueError as error:
        raise refused(name, line, str(error)) from error


def _reading(line: int, row: re.Match[str]) -> PrintedCount:
    word, event = row["value"], row["event"]
    unit = row["unit"] or row["old_unit"] or ""
    if not unit and event.startswith(("task-clock", "cpu-clock")):
        # The first perf printed milliseconds without their unit.
        unit = "msec"
    if word not in NOT_COUNTED:
        word = _decimal(word) if unit else _integer(word)
    running = _RUNNING.search(row["rest"] or "")
    # perf leaves it out where a counter ran all the time.
    fraction = percent(running["percent"].replace(",", ".")) if running else 1.0
    time = row["time"].replace(",", ".") if row["time"] else None
    parts = [part for part in (row["part"], row["cgroup"]) if part]
    return PrintedCount.of(line, event, word, unit, fraction, time, " ".join(parts) or None)


def _integer(text: str) -> str:
    """Without its separators."""
    if not _COUNT.fullmatch(text):
        raise ValueError(f"not a count: {text}")
    return re.sub(r"[^0-9]", "", text)


def _decimal(text: str) -> str:
    """The last separator is the decimal one, as perf prints decimals wherever there is a unit."""
    found = re.fullmatch(r"(?P<whole>.*?)(?:[.,](?P<part>[0-9]+))?", text)
    assert found is not None
    whole = re.sub(r"[^0-9]", "", found["whole"])
    return f"{whole or 0}.{found['part'] or 0}"


def _facts(name: str, block: _Block, before: int) -> FileFacts:
    notes = []
    if before:
        notes.append(f"lines left out before perf's output: {before}")
    command = None
    if block.what is not None:
        found = _COMMAND.fullmatch(block.what)
        if found is None or found["command"] == "system wide":
            notes.append(f"the counts are not of one program but of {block.what.strip(chr(39))}")
        else:
            command = found["command"]
        if found is not None and found["runs"]:
            notes.append(f"the counts are means over {found['runs']} runs")
    wall = block.times_ns.get("time elapsed")
    return FileFacts(
        wall_ns=last_time(name, block.readings) if wall is None else wall,
        user_ns=block.times_ns.get("user"),
        system_ns=block.times_ns.get("sys"),
        command=command,
        notes=tuple(notes),
    )
