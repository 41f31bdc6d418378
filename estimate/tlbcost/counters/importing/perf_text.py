# SPDX-License-Identifier: GPL-2.0-or-later
"""The output of `perf stat` for people.

Numbers have the thousands separators of the locale they were printed in; a count is an integer,
and only one with a unit has decimals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tlbcost.common.errors import TlbcostError
from tlbcost.counters.importing.printed_counts import (
    CLOCKS,
    NOT_COUNTED,
    UNIT,
    FileFacts,
    Output,
    PrintedCount,
    last_time,
    note_of_unread,
    number,
    percent,
    refused,
)

_TITLE = re.compile(r"\s*Performance counter stats for (?P<what>.*)")
# A command of several lines is printed as it is.
_TITLE_END = re.compile(r".*'(?: \([0-9]+ runs\))?:\s*", re.ASCII)
_COMMAND = re.compile(r"'(?P<command>.*)'(?: \((?P<runs>[0-9]+) runs\))?", re.ASCII | re.DOTALL)
_NO_COMMAND = re.compile(r"system wide$|CPU\(s\) |BPF program\(s\) ")
INTERVALS = re.compile(r"#\s+time\s+(?:\S+\s+)*counts\s+unit\s+events\s*")
# French and Swiss locales separate thousands with these; what is pasted often has plain blanks.
_SPACES = "\u00a0\u202f\u2009"
_NUMBER = (
    rf"(?:[0-9]{{1,3}}(?: [0-9]{{3}})+(?:[.,][0-9]+)?|[0-9](?:[0-9.,'\u2019{_SPACES}]*[0-9])?)"
)
# A CPU or a socket; or a thread, whose name may have blanks and signs in it.
_PART = r"(?P<part>[A-Z][^\s/:.]*[0-9]|(?![0-9]+\s)\S.{0,30}?-[0-9]+)"
_ROW = re.compile(
    r"\s*(?:(?P<time>[0-9]+[.,][0-9]+)\s+)?"
    rf"(?:{_PART}\s+(?:[0-9]+\s\s+)?)??"
    rf"(?P<value>{_NUMBER}|<not counted>|<not supported>)\s+"
    r"(?:(?P<unit>msec|nsec|usec|ns|sec|Joules|[KMG]?i?Bytes|[KMG]iB|C)\s+)?"
    r"(?P<event>(?:raw 0x|0x|[A-Za-z])\S*(?: \[\S+\])?)"
    r"(?:\s+\((?P<old_unit>msec)\))?"
    r"(?:\s+(?P<cgroup>[^\s#(]\S*))?"
    r"(?P<rest>(?:\s+[#(].*|\s*))",
    re.ASCII,
)
# A metric of the row above, or of several events (perf 6.3 and later).
_METRIC = re.compile(
    rf"\s*(?:[0-9]+\.[0-9]{{9}}\s+)?(?:(?![0-9]){_PART}\s+(?:[0-9]+\s{{8,}})?)??"
    r"(?:[A-Za-z]\S*(?: \(\w+\))?\s+)?#\s.*",
    re.ASCII,
)
_RUNNING = re.compile(r"\(\s*(?P<percent>[0-9]+[.,][0-9]+)\s*%\)", re.ASCII)
_TIMES = re.compile(
    rf"\s*(?P<value>{_NUMBER})(?:\s+\+-\s+{_NUMBER})?\s+seconds (?P<what>time elapsed|user|sys)"
    r"(?:\s.*)?",
    re.ASCII,
)
# What perf adds below: advice, and with --table the time of each run.
_ADVICE = re.compile(
    r"\s*(?:Some events weren't counted|echo [01] > |perf stat \.\.\.|The events in group |"
    rf"nmi_watchdog enabled |Disable with |{_NUMBER} \([+-])",
    re.ASCII,
)
_COUNT = re.compile(
    rf"[0-9]+|[0-9]{{1,3}}(?:(?P<s>[.,' \u2019{_SPACES}])[0-9]{{3}}(?:(?P=s)[0-9]{{3}})*)"
)


@dataclass(slots=True)
class _Block:
    """One output: its title's words, rows and footer."""

    what: str | None
    readings: list[PrintedCount] = field(default_factory=list)
    times_ns: dict[str, int] = field(default_factory=dict)


def is_start(text: str) -> bool:
    return _TITLE.fullmatch(text) is not None or INTERVALS.fullmatch(text) is not None


def parse(name: str, lines: Sequence[tuple[int, str]]) -> list[Output]:
    """Outputs in numbered `lines`, after a program's own. Raises TlbcostError."""
    blocks: list[_Block] = []
    before = beyond = 0
    unread: list[tuple[int, str]] = []
    for i, (line, text) in enumerate(lines):
        title = _TITLE.fullmatch(text)
        if i < beyond:
            continue
        if title is not None:
            if blocks and blocks[-1].what is None:
                # Below the intervals, --summary prints their sum.
                blocks.pop()
            beyond = _after_title(lines, i)
            words = [title["what"], *(more for _, more in lines[i + 1 : beyond])]
            blocks.append(_Block("\n".join(words).rstrip().removesuffix(":")))
        elif INTERVALS.fullmatch(text):
            # It is repeated every 25 intervals.
            blocks = blocks or [_Block(None)]
        elif not blocks:
            before += not text.startswith("#")
        elif _ADVICE.match(text) or _METRIC.fullmatch(text):
            continue
        elif not _line(name, line, text, blocks[-1]):
            unread.append((line, text))
    readings = [reading for block in blocks for reading in block.readings]
    notes = [f"lines left out before perf's output: {before}"] if before else []
    notes += note_of_unread(name, unread, readings)
    if not all(block.readings for block in blocks):
        raise TlbcostError(f"cannot read counts from {name}: no event is in perf's output")
    return [(block.readings, _facts(name, block, list(notes))) for block in blocks]


def _after_title(lines: Sequence[tuple[int, str]], start: int) -> int:
    """Where the title ends that starts there: below its last line, perf leaves one blank."""
    for i in range(start, len(lines) - 1):
        if i > start and (_TITLE.fullmatch(lines[i][1]) or _TIMES.fullmatch(lines[i][1])):
            break
        if _TITLE_END.fullmatch(lines[i][1]) and lines[i + 1][0] > lines[i][0] + 1:
            return i + 1
    return start + 1


def _line(name: str, line: int, text: str, block: _Block) -> bool:
    times = _TIMES.fullmatch(text)
    row = None if times else _ROW.fullmatch(text)
    try:
        if times is not None:
            block.times_ns[times["what"]] = round(1e9 * number(_decimal(times["value"])))
        elif row is not None:
            block.readings.append(_reading(line, row))
    except ValueError as error:
        raise refused(name, line, str(error)) from error
    return times is not None or row is not None


def _reading(line: int, row: re.Match[str]) -> PrintedCount:
    word, event, cgroup = row["value"], row["event"], row["cgroup"]
    unit = row["unit"] or row["old_unit"] or ""
    if word not in NOT_COUNTED:
        whole = _COUNT.fullmatch(word) is not None
        if not whole and not unit and cgroup and UNIT.fullmatch(event):
            unit, event, cgroup = event, cgroup, None
        if not whole and not unit and not event.startswith(CLOCKS):
            raise ValueError(f"not a count: {word}")
        word = re.sub("[^0-9]", "", word) if whole else _decimal(word)
    running = _RUNNING.search(row["rest"] or "")
    # perf leaves it out where a counter ran all the time.
    fraction = percent(running["percent"].replace(",", ".")) if running else 1.0
    time = row["time"].replace(",", ".") if row["time"] else None
    return PrintedCount.of(line, event, word, unit, fraction, time, row["part"], cgroup)


def _decimal(text: str) -> str:
    """The last separator is the decimal one, as perf prints decimals wherever there is a unit."""
    whole, _, part = re.sub(r"[.,]([0-9]+)$", r"_\1", text).partition("_")
    return f"{re.sub('[^0-9]', '', whole)}.{part or 0}"


def _facts(name: str, block: _Block, notes: list[str]) -> FileFacts:
    command = subject = None
    if block.what is not None:
        found = _COMMAND.fullmatch(block.what)
        subject = block.what if found is None else found["command"]
        if found is None or _NO_COMMAND.match(found["command"]):
            notes.append(f"the counts are not of one program but of {subject}")
        else:
            command = subject
        if found is not None and found["runs"]:
            notes.append(f"the counts are means over {found['runs']} runs")
    wall = block.times_ns.get("time elapsed")
    return FileFacts(
        wall_ns=last_time(name, block.readings) if wall is None else wall,
        user_ns=block.times_ns.get("user"),
        system_ns=block.times_ns.get("sys"),
        command=command,
        subject=subject,
        notes=tuple(notes),
    )
