# SPDX-License-Identifier: GPL-2.0-or-later
"""The output of `perf stat -x` and of `perf stat -j`: perf-stat(1), "CSV FORMAT", "JSON FORMAT".

With -x fields are not quoted: an event's own commas look like separators, and which fields there
are depends on the options. So the value is looked for: a number, a unit, and a name after it. With
-j there is an object a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NoReturn

from tlbcost.counters.importing.printed_counts import (
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

_EVENT = re.compile(r"(?=.*[A-Za-z])[^\s<>][^<>]*", re.ASCII)
_DECIMAL = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_TIME = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)
_VARIANCE = re.compile(r"(?:[0-9]+\.[0-9]+|-?nan|inf)%", re.ASCII)
# An event's own commas: cpu/event=0x08,umask=0x10/u.
_OPEN = re.compile(r"[\w.-]+/[^/]*", re.ASCII)
_CLOSE = re.compile(r"[^/]*/[A-Za-z]*", re.ASCII)
_SUMMARY = "summary"
# Decimal commas look like separators, but perf prints a fixed number of decimals.
_COMMAS = (
    (re.compile(r"(,[0-9]+,[0-9]{1,3}),([0-9]{2}(?:,|$))", re.ASCII), r"\1.\2"),
    (re.compile(r"((?:^|,)[0-9]+),([0-9]{2},(?!ns,)[A-Za-z]+,[^,]*[A-Za-z])", re.ASCII), r"\1.\2"),
    (re.compile(r"((?:^|,)[0-9]+),([0-9]{6},,(?:task|cpu)-clock)", re.ASCII), r"\1.\2"),
    (re.compile(r"(,[0-9]+),([0-9]{2}%,)", re.ASCII), r"\1.\2"),
)
_COMMA = ((re.compile("([0-9]),(?=[0-9])"), r"\1."),)
_THREAD = re.compile(r".*-[0-9]+", re.ASCII)
_PARTS = ("cpu", "core", "cluster", "cache", "die", "socket", "node", "thread")
# perf writes decimals as the locale has them, and metrics that are no numbers.
_DECIMAL_COMMA = re.compile(r'(: "?-?[0-9]+),([0-9]+)', re.ASCII)
_NO_METRIC = re.compile(r": -?(?:nan|inf)\b")


def separator(lines: Sequence[tuple[int, str]]) -> str | None:
    """The separator of the first rows, or None if these are not perf's."""
    rows = [line for _, line in lines[:40]]
    signs = dict.fromkeys(re.findall(r"[^\w\s.<>/%-]|\t", "".join(rows)))
    return next((sign for sign in signs if any(_split(row, sign) for row in rows)), None)


def parse(name: str, lines: Sequence[tuple[int, str]], *, objects: bool) -> Output:
    """The readings of -j (`objects`) or of -x. `lines` have their numbers.

    Raises TlbcostError naming the first bad one.
    """
    sign = "" if objects else separator(lines)
    if sign is None:
        raise refused(name, lines[0][0], "neither a count nor a metric of perf stat -x is in it")
    readings: list[PrintedCount] = []
    several = False
    unread = []
    for line, text in lines:
        if objects and text.lstrip().startswith("{"):
            found = object_of(name, line, text)
            if (reading := reading_of(name, line, found)) is not None:
                readings.append(reading)
                several = several or "variance" in found
        elif not objects and (split := _split(text, sign)) is not None:
            before, fields = split
            if before[:1] == [_SUMMARY]:
                continue
            try:
                readings.append(_of_fields(line, before, fields))
            except ValueError as error:
                raise refused(name, line, str(error)) from error
            several = several or any(_VARIANCE.fullmatch(field) for field in fields[3:5])
        elif objects or not _is_metric(text, sign):
            unread.append((line, text))
    notes = ["the counts are means over repeated runs"] if several else []
    notes += note_of_unread(name, unread, readings)
    return readings, FileFacts(wall_ns=last_time(name, readings), notes=tuple(notes))


def _split(text: str, sign: str) -> tuple[list[str], list[str]] | None:
    if sign != "," or _COMMAS[0][0].search(text):
        for commas, point in _COMMAS if sign == "," else _COMMA:
            text = commas.sub(point, text)
    fields = [field.strip() for field in text.split(sign)]
    for i in range(min(5, len(fields) - 2)):
        is_value = fields[i] in NOT_COUNTED or _DECIMAL.fullmatch(fields[i])
        if is_value and UNIT.fullmatch(fields[i + 1]) and _EVENT.fullmatch(fields[i + 2]):
            return (fields[:i], _joined(fields[i:], sign)) if _is_prefix(fields[:i]) else None
    return None


def _is_prefix(fields: list[str]) -> bool:
    timed = fields and (_TIME.fullmatch(fields[0]) or fields[0] == _SUMMARY)
    rest = fields[1:] if timed else fields
    if not rest or _THREAD.fullmatch(rest[-1]):
        return True
    counted = len(rest) == 1 or (len(rest) == 2 and rest[1].isdecimal())
    return counted and rest[0] != "" and not _DECIMAL.fullmatch(rest[0])


def _joined(fields: list[str], sign: str) -> list[str]:
    if _OPEN.fullmatch(fields[2]):
        for end in range(3, len(fields)):
            if _CLOSE.fullmatch(fields[end]):
                return [*fields[:2], sign.join(fields[2 : end + 1]), *fields[end + 1 :]]
            if "/" in fields[end]:
                break
    return fields


def _is_metric(text: str, sign: str) -> bool:
    fields = [field.strip() for field in text.split(sign)]
    first = next((i for i in range(min(4, len(fields))) if not any(fields[i : i + 2])), None)
    return first is not None and len(fields) >= first + 3


def _of_fields(line: int, before: list[str], fields: list[str]) -> PrintedCount:
    word, unit, event, *rest = fields
    cgroup = None
    if rest and not (_DECIMAL.fullmatch(rest[0]) or _VARIANCE.fullmatch(rest[0])):
        # With --for-each-cgroup the group's name is behind the event's.
        cgroup, rest = rest[0], rest[1:]
    rest = rest[1:] if rest and _VARIANCE.fullmatch(rest[0]) else rest
    fraction = percent(rest[1]) if len(rest) > 1 else None
    time = before[0] if before and _TIME.fullmatch(before[0]) else None
    # How many CPUs a socket has differs between its events: it is no part of the socket's name.
    ids = [field for field in (before[1:] if time else before) if not field.isdecimal()]
    return PrintedCount.of(line, event, word, unit, fraction, time, " ".join(ids), cgroup)


def object_of(name: str, line: int, text: str) -> dict[str, object]:
    """The object of a line. Raises TlbcostError naming it."""
    text = _DECIMAL_COMMA.sub(r"\1.\2", _NO_METRIC.sub(": null", text))
    try:
        # Python reads numbers that JSON does not have.
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise refused(name, line, f"not a JSON object: {error}") from error
    if not isinstance(found, dict):
        raise refused(name, line, "expected a JSON object on each line, as perf stat -j writes")
    return found


def reading_of(name: str, line: int, found: dict[str, object]) -> PrintedCount | None:
    """The count of an object; None: it has a metric alone. Raises TlbcostError."""
    if "counter-value" not in found and any(key.startswith("metric") for key in found):
        return None
    try:
        return _of_object(line, found)
    except ValueError as error:
        raise refused(name, line, str(error)) from error


def _of_object(line: int, found: dict[str, object]) -> PrintedCount:
    word, event = _word(found, "counter-value"), _word(found, "event")
    unit = _word(found, "unit") if "unit" in found else ""
    if not event or not UNIT.fullmatch(unit):
        raise ValueError("expected an event's name and a unit")
    fraction = percent(_word(found, "pcnt-running")) if "pcnt-running" in found else None
    parts = [_word(found, key) for key in _PARTS if key in found]
    time = None
    if "interval" in found:
        time = _word(found, "interval")
        number(time)
    cgroup = _word(found, "cgroup") if "cgroup" in found else ""
    return PrintedCount.of(line, event, word, unit, fraction, time, " ".join(parts), cgroup)


def _word(found: dict[str, object], key: str) -> str:
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"'{key}' is missing, or neither text nor a number")
    return str(value).strip()


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"not a number: {word}")
