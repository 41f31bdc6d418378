# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the output of `perf stat -x` say? perf-stat(1), "CSV FORMAT", has its fields.

They are not quoted: an event's own commas look like separators, and which fields there are
depends on the options. So the value is looked for: a number, a unit, and a name after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tlbcost.counters.importing.printed_counts import (
    NOT_COUNTED,
    UNIT,
    FileFacts,
    PrintedCount,
    last_time,
    note_of_repeats,
    percent,
    refused,
)

_EVENT = re.compile(r"(?=.*[A-Za-z])[^\s<>][^<>]*", re.ASCII)
_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_TIME = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)
_VARIANCE = re.compile(r"(?:[0-9]+\.[0-9]+|-?nan|inf)%", re.ASCII)
# An event's own commas: cpu/event=0x08,umask=0x10/u.
_OPEN = re.compile(r"[\w.-]+/[^/]*", re.ASCII)
_CLOSE = re.compile(r"[^/]*/[A-Za-z]*", re.ASCII)
_SUMMARY = "summary"


def separator(lines: Sequence[tuple[int, str]]) -> str | None:
    """The separator of the first rows, or None if these are not perf's."""
    rows = [line for _, line in lines[:40]]
    found = re.search(r"(?:>|[0-9])(?P<s>[^\w\s.<>/%-]|\t)", rows[0]) if rows else None
    likely = ("" if found is None else str(found["s"])) + ";|\t,!#@^~:"
    for sign in dict.fromkeys(likely):
        if any(_split(row, sign) for row in rows) and all(
            _split(row, sign) or _is_metric(row, sign) for row in rows[:1]
        ):
            return sign
    return None


def parse(name: str, lines: Sequence[tuple[int, str]]) -> tuple[list[PrintedCount], FileFacts]:
    """The readings. `lines` have their numbers; raises TlbcostError naming the first bad one."""
    sign = separator(lines)
    if sign is None:
        raise refused(name, lines[0][0], "neither a count nor a metric of perf stat -x is in it")
    readings: list[PrintedCount] = []
    several = False
    for line, text in lines:
        found = _split(text, sign)
        if found is None:
            if _is_metric(text, sign):
                continue
            raise refused(name, line, "expected a count, its unit and an event's name")
        before, fields = found
        if before and before[0] == _SUMMARY:
            continue
        try:
            reading, varies = _reading(line, before, fields)
        except ValueError as error:
            raise refused(name, line, str(error)) from error
        readings.append(reading)
        several = several or varies
    return readings, FileFacts(wall_ns=last_time(name, readings), notes=note_of_repeats(several))


def _split(text: str, sign: str) -> tuple[list[str], list[str]] | None:
    """The fields before the value, and those from it on; None: there is no value."""
    fields = [field.strip() for field in text.split(sign)]
    for i in range(min(5, len(fields) - 2)):
        is_value = fields[i] in NOT_COUNTED or _DECIMAL.fullmatch(fields[i])
        if is_value and UNIT.fullmatch(fields[i + 1]) and _EVENT.fullmatch(fields[i + 2]):
            return (fields[:i], _joined(fields[i:], sign)) if _is_prefix(fields[:i]) else None
    return None


def _is_prefix(fields: list[str]) -> bool:
    """A time or `summary`, then an id, then how many CPUs it stands for."""
    rest = (
        fields[1:] if fields and (_TIME.fullmatch(fields[0]) or fields[0] == _SUMMARY) else fields
    )
    if len(rest) == 2 and not rest[1].isdecimal():
        return False
    return len(rest) <= 2 and not (rest and (_DECIMAL.fullmatch(rest[0]) or not rest[0]))


def _joined(fields: list[str], sign: str) -> list[str]:
    """The fields with an event that has the separator in its name put together."""
    if _OPEN.fullmatch(fields[2]):
        for end in range(3, len(fields)):
            if _CLOSE.fullmatch(fields[end]):
                return [*fields[:2], sign.join(fields[2 : end + 1]), *fields[end + 1 :]]
            if "/" in fields[end]:
                break
    return fields


def _is_metric(text: str, sign: str) -> bool:
    """A line with a metric alone: the fields of the count are empty."""
    fields = [field.strip() for field in text.split(sign)]
    if fields and (_TIME.fullmatch(fields[0]) or fields[0] == _SUMMARY):
        fields = fields[1:]
    while fields and re.fullmatch(r"[A-Za-z][\w-]*|[0-9]+", fields[0], re.ASCII):
        fields = fields[1:]
    return len(fields) >= 5 and not any(fields[:3])


def _reading(line: int, before: list[str], fields: list[str]) -> tuple[PrintedCount, bool]:
    """The reading, and whether it is a mean of several runs."""
    word, unit, event, *rest = fields
    varies = bool(rest) and _VARIANCE.fullmatch(rest[0]) is not None
    rest = rest[1:] if varies else rest
    if rest and not _DECIMAL.fullmatch(rest[0]) and not varies:
        # With --for-each-cgroup the group's name is behind the event's.
        event, before, rest = event, [*before, rest[0]] if rest[0] else before, rest[1:]
        varies = bool(rest) and _VARIANCE.fullmatch(rest[0]) is not None
        rest = rest[1:] if varies else rest
    fraction = percent(rest[1]) if len(rest) > 1 else None
    time = before[0] if before and _TIME.fullmatch(before[0]) else None
    # How many CPUs a socket has differs between its events: it is no part of the socket's name.
    ids = [field for field in (before[1:] if time else before) if not field.isdecimal()]
    part = " ".join(ids) or None
    return PrintedCount.of(line, event, word, unit, fraction, time, part), varies
