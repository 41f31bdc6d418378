# SPDX-License-Identifier: GPL-2.0-or-later
"""Listings of oprofile's opreport: samples of each program object, by event.

An event's count is its samples times the events that one sample stands for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.counters.event_counts import EventCount, EventCounts
from tlbcost.counters.importing.event_names import meaning
from tlbcost.counters.importing.printed_counts import refused
from tlbcost.processors.event_tables import generic_pmu
from tlbcost.processors.events import Pmu

_COUNTED = re.compile(
    r"Counted (?P<event>\S+) events\b(?:(?!Counted ).)*?\bcount (?P<period>[0-9]{1,18})\b", re.ASCII
)
START = re.compile(r"(?:CPU: .*|Counted \S+ events\b.*)")
_COLUMNS = re.compile(r"\s*(?:samples\s*\|?\s*%\s*\|?\s*)+(?:image name|app name)?\s*")
_RULE = re.compile(r"\s*-+\s*")


@dataclass(slots=True)
class _Listing:
    """One listing: the lines above its columns, then samples of each object."""

    head: list[str] = field(default_factory=list)
    events: list[tuple[str, int]] = field(default_factory=list)
    columns: bool = False
    rows: list[tuple[str, list[int]]] = field(default_factory=list)


def parse(
    name: str, lines: Sequence[tuple[int, str]], pmu: Pmu | None, object_name: str | None
) -> list[EventCounts]:
    """The counts of one object, from each listing in the file.

    `object_name` None: the object with the most samples of cycles. Raises TlbcostError naming the
    first bad line, or (usage) if there is no such object.
    """
    listings: list[_Listing] = []
    for line, text in lines:
        if START.match(text) and (not listings or listings[-1].columns):
            listings.append(_Listing())
        if not listings:
            raise refused(name, line, "expected 'CPU: ...' or 'Counted ... events'")
        _line(name, line, text, listings[-1])
    for listing in listings:
        if not listing.rows:
            raise TlbcostError(f"cannot read counts from {name}: the listing has no rows")
    return [_object_counts(name, listing, pmu, object_name) for listing in listings]


def _line(name: str, line: int, text: str, listing: _Listing) -> None:
    if not listing.columns:
        if _COLUMNS.fullmatch(text):
            # The header's lines may have been broken anywhere.
            head = " ".join(listing.head)
            listing.events = [(m["event"], int(m["period"])) for m in _COUNTED.finditer(head)]
            listing.columns = True
            if len(listing.events) != text.count("samples"):
                why = f"{text.count('samples')} columns, but {len(listing.events)} events above"
                raise refused(name, line, why)
        elif re.match(r".*\bsamples\b.*%", text):
            raise refused(
                name, line, "expected a listing of objects: samples and %, for each event"
            )
        listing.head.append(text)
    elif not text.strip() or _RULE.fullmatch(text) or text.startswith("\t"):
        # Behind a tabulator: what the object above is made of.
        return
    else:
        listing.rows.append(_row(name, line, text, len(listing.events)))


def _row(name: str, line: int, text: str, events: int) -> tuple[str, list[int]]:
    words = text.split(None, 2 * events)
    if len(words) == 2 * events + 1:
        samples, shares = words[: 2 * events : 2], words[1 : 2 * events : 2]
        fine = all(re.fullmatch(r"[0-9]{1,18}", word, re.ASCII) for word in samples)
        if fine and all(re.fullmatch(r"[0-9]{1,3}(\.[0-9]+)?", w, re.ASCII) for w in shares):
            return words[-1].strip(), [int(word) for word in samples]
    raise refused(name, line, f"expected samples and % of {events} events, then an object")


def _object_counts(
    name: str, listing: _Listing, pmu: Pmu | None, object_name: str | None
) -> EventCounts:
    meanings = [meaning(event, pmu) for event, _ in listing.events]
    by = next((i for i, m in enumerate(meanings) if m.name == "cycles"), 0)
    chosen, samples = _choose(name, listing, object_name, by)
    notes = [
        f"{chosen} is taken, with {samples[by]} samples of {listing.events[by][0]}; "
        f"objects listed: {len(listing.rows)}"
    ]
    cpu = re.search(r"CPU: (.*?)(?: Counted |$)", " ".join(listing.head))
    if cpu:
        notes.append(f"the listing is of the CPU {cpu[1].strip()}")
    notes += [m.note for m in meanings if m.note]
    counts = tuple(
        EventCount(m.name, event, float(n * period), None, "counted")
        for m, (event, period), n in zip(meanings, listing.events, samples, strict=True)
    )
    return EventCounts(
        source=name,
        pmu=(pmu or generic_pmu()).key,
        # Samples of a program's own object were taken in user mode.
        mode="user",
        counts=counts,
        command=chosen,
        notes=tuple(notes),
    )


def _choose(
    name: str, listing: _Listing, object_name: str | None, by: int
) -> tuple[str, list[int]]:
    totals: dict[str, list[int]] = {}
    for row_name, samples in listing.rows:
        before = totals.get(row_name, [0] * len(samples))
        totals[row_name] = [a + b for a, b in zip(before, samples, strict=True)]
    if object_name is None:
        return max(totals.items(), key=lambda item: item[1][by])
    for found, samples in totals.items():
        if object_name in (found, found.rpartition("/")[2]):
            return found, samples
    raise TlbcostError(
        f"no object '{object_name}' is listed in {name}",
        "it has " + ", ".join(list(totals)[:20]),
        USAGE,
    )
