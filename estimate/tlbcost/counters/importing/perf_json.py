# SPDX-License-Identifier: GPL-2.0-or-later
"""The output of `perf stat -j`. perf-stat(1), "JSON FORMAT": an object a line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NoReturn

from tlbcost.counters.importing.printed_counts import (
    UNIT,
    Output,
    PrintedCount,
    number,
    percent,
    refused,
    whole_output,
)

_PARTS = ("cpu", "core", "cluster", "cache", "die", "socket", "node", "thread")
# perf writes decimals as the locale has them, and metrics that are no numbers.
_DECIMAL_COMMA = re.compile(r'(: "?-?[0-9]+),([0-9]+)', re.ASCII)
_NO_METRIC = re.compile(r": -?(?:nan|inf)\b")


def parse(name: str, lines: Sequence[tuple[int, str]]) -> Output:
    """The readings. `lines` have their numbers; raises TlbcostError naming the first bad one."""
    readings = []
    several = False
    unread = []
    for line, text in lines:
        if not text.lstrip().startswith("{"):
            unread.append((line, text))
            continue
        found = object_of(name, line, text)
        reading = reading_of(name, line, found)
        if reading is not None:
            readings.append(reading)
            several = several or "variance" in found
    return whole_output(name, readings, unread, several)


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
        return _reading(line, found)
    except ValueError as error:
        raise refused(name, line, str(error)) from error


def _reading(line: int, found: dict[str, object]) -> PrintedCount:
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
