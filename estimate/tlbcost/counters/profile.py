# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording's samples, added up by object, symbol or mapping of data, and as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Literal

from tlbcost.common import document, names, units
from tlbcost.common.document import Part, doc
from tlbcost.counters.samples import Hits, SampleHit, doubts

By = Literal["object", "symbol", "mapping"]

# Object, symbol, data and its TLB, as in a row.
_Place = tuple[str | None, str | None, str | None, str | None]

# Rows at most unless another number is asked for.
DEFAULT_ROWS = 15
_COLUMNS = 80
_SAMPLES, _PERCENT = 10, 8
_NARROWEST = 12


@dataclass(frozen=True, slots=True)
class EventSamples:
    """The samples of one event."""

    samples: Annotated[int, doc("how many")]
    estimated: Annotated[int, doc("the events that they stand for")]

    def plus(self, hit: SampleHit) -> EventSamples:
        return EventSamples(self.samples + hit.samples, self.estimated + hit.weight)


NO_SAMPLES = EventSamples(0, 0)


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One place. null: not known, or not asked for."""

    object: Annotated[str | None, doc("path of the object that the code is in, or a [name]")]
    symbol: Annotated[str | None, doc("the function")]
    data: Annotated[str | None, doc("the mapping that the data is in")]
    data_tlb: Annotated[str | None, doc('which TLB the data hit, as in doc/format.md, "hits"')]
    events: Annotated[
        dict[str, EventSamples], doc("by event; one that is absent has no sample here")
    ]


@dataclass(frozen=True, slots=True)
class Profile:
    """What is printed. `limit`: rows at most. `notes` are sentences."""

    hits: Hits
    by: By
    limit: int = DEFAULT_ROWS
    notes: tuple[str, ...] = ()


def rows(hits: Sequence[SampleHit], by: By) -> list[ProfileRow]:
    """Rows of a profile, sorted by the first event that has samples, then by the others."""
    found: dict[_Place, dict[str, EventSamples]] = {}
    for hit in hits:
        place: _Place
        if by == "mapping":
            place = (None, None, hit.data, hit.data_tlb)
        else:
            place = (hit.object, hit.symbol if by == "symbol" else None, None, None)
        events = found.setdefault(place, {})
        events[hit.event] = events.get(hit.event, NO_SAMPLES).plus(hit)
    order = list(dict.fromkeys(hit.event for hit in hits))

    def key(row: ProfileRow) -> tuple[list[int], tuple[str, ...]]:
        names = (row.object, row.symbol, row.data, row.data_tlb)
        most = [-row.events.get(event, NO_SAMPLES).estimated for event in order]
        return most, tuple(name or "" for name in names)

    return sorted((ProfileRow(*place, events) for place, events in found.items()), key=key)


def totals(hits: Hits) -> dict[str, EventSamples]:
    found = dict.fromkeys(hits.events, NO_SAMPLES)
    for hit in hits.hits:
        found[hit.event] = found[hit.event].plus(hit)
    return found


def short_names(objects: Sequence[str | None]) -> dict[str, str]:
    paths = {name for name in objects if name is not None and name.startswith("/")}
    short = {path: names.shown(PurePosixPath(path).name or path) for path in paths}
    taken = list(short.values())
    return {
        path: name if taken.count(name) == 1 else names.shown(path) for path, name in short.items()
    }


def describe(profile: Profile) -> str:
    hits = profile.hits
    whole = totals(hits)
    lines = [
        f"{name}: {found.samples:,} samples, which stand for {units.count(found.estimated)}"
        for name, found in whole.items()
    ]
    shown = rows(hits.hits, profile.by)
    if shown:
        lines += ["", *_table(profile, shown)]
    notes = [*doubts(hits), *profile.notes]
    if notes:
        lines.append("")
    for note in notes:
        lines += textwrap.wrap(
            note, _COLUMNS, initial_indent="note: ", subsequent_indent="      ",
            break_on_hyphens=False, break_long_words=False,
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def _table(profile: Profile, shown: Sequence[ProfileRow]) -> list[str]:
    whole = totals(profile.hits)
    events = list(whole)
    short = short_names([row.object for row in shown] + [row.data for row in shown])
    titles = {"object": ("object",), "symbol": ("object", "symbol"), "mapping": ("data", "TLB")}[
        profile.by
    ]
    pair = _SAMPLES + _PERCENT
    lines = ["".join(f"{_cut(name, pair - 2):>{pair}}" for name in events)]
    lines.append((f"{'samples':>{_SAMPLES}}{'%':>{_PERCENT}}" * len(events)) + "  " + titles[0])
    names = [_names(row, profile.by, short) for row in shown]
    kept = shown[: profile.limit]
    left = max(_NARROWEST, *(len(name[0]) for name in names[: len(kept)])) if kept else 0
    left = min(left, max(_NARROWEST, _COLUMNS - pair * len(events) - 2))
    if len(titles) > 1:
        lines[-1] = lines[-1][: -len(titles[0])] + f"{titles[0]:<{left}}  {titles[1]}"
    for row, name in zip(kept, names, strict=False):
        cells = "".join(_pair(row.events.get(event, NO_SAMPLES), whole[event]) for event in events)
        lines.append(f"{cells}  {name[0]:<{left}}  {'  '.join(name[1:])}".rstrip())
    if len(kept) < len(shown):
        lines.append(f"({len(shown) - len(kept)} more; --limit {len(shown)} shows all)")
    return lines


def _names(row: ProfileRow, by: By, short: dict[str, str]) -> tuple[str, ...]:
    def named(name: str | None) -> str:
        return units.NOT_OBTAINED if name is None else short.get(name, name)

    if by == "mapping":
        return named(row.data), row.data_tlb or units.NOT_OBTAINED
    if by == "symbol":
        return named(row.object), row.symbol or units.NOT_OBTAINED
    return (named(row.object),)


def _pair(found: EventSamples, whole: EventSamples) -> str:
    # As profilers have always shown it: small shares must stay apart in a column.
    share = f"{100 * found.estimated / whole.estimated:.2f}" if whole.estimated else None
    return f"{found.samples:>{_SAMPLES},}{share or units.NOT_OBTAINED:>{_PERCENT}}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 2]}.."


class ProfileDocument(Part, frozen=True, kw_only=True):
    """Where sampled events of a program happened. null: not obtained."""

    format: Annotated[
        Literal["tlbcost profile 2"], doc("form of this document and its version")
    ] = "tlbcost profile 2"
    by: Annotated[By, doc("what the rows are: objects, symbols or mappings of data")]
    lost: Annotated[int, doc("records that did not fit into the buffer")]
    events: Annotated[dict[str, EventSamples], doc("all samples of each event")]
    rows: Annotated[list[ProfileRow], doc("the places with the most events of the first kind")]
    notes: Annotated[tuple[str, ...], doc("what makes the numbers less than exact")]


def to_json(profile: Profile) -> str:
    hits = profile.hits
    return document.to_json(
        ProfileDocument(
            by=profile.by,
            lost=hits.lost,
            events=totals(hits),
            rows=rows(hits.hits, profile.by)[: profile.limit],
            notes=(*doubts(hits), *profile.notes),
        )
    )
