# SPDX-License-Identifier: GPL-2.0-or-later
"""How do the hits of a recording add up by object, by symbol or by mapping?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Literal

from tlbcost.common.document import doc
from tlbcost.counters.hits import Hits, SampleHit

By = Literal["object", "symbol", "mapping"]

# Object, symbol, data and its TLB, as in a row.
_Place = tuple[str | None, str | None, str | None, str | None]

# Rows at most unless another number is asked for.
DEFAULT_ROWS = 20


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of one event."""

    samples: Annotated[int, doc("how many")]
    estimated: Annotated[int, doc("the events that they stand for")]

    def plus(self, hit: SampleHit) -> Samples:
        """With those of a hit."""
        return Samples(self.samples + hit.samples, self.estimated + hit.weight)


NO_SAMPLES = Samples(0, 0)


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One place. null: not known, or not asked for."""

    object: Annotated[str | None, doc("path of the object that the code is in, or a [name]")]
    symbol: Annotated[str | None, doc("the function")]
    data: Annotated[str | None, doc("the mapping that the data is in")]
    data_tlb: Annotated[str | None, doc('which TLB the data hit, as in doc/format.md, "hits"')]
    events: Annotated[dict[str, Samples], doc("by event; one that is absent has no sample here")]


@dataclass(frozen=True, slots=True)
class Profile:
    """What is printed. `limit`: rows at most. `notes` are sentences."""

    hits: Hits
    symbols: tuple[str | None, ...]
    by: By
    limit: int = DEFAULT_ROWS
    notes: tuple[str, ...] = ()


def rows(hits: Sequence[SampleHit], symbols: Sequence[str | None], by: By) -> list[ProfileRow]:
    """The rows of a profile, in the order in which they are shown.

    `symbols`: that of each hit, for `by` symbol. The first event that has samples decides the
    order, further ones where it has none.
    """
    found: dict[_Place, dict[str, Samples]] = {}
    for hit, symbol in zip(hits, symbols, strict=True):
        place: _Place
        if by == "mapping":
            place = (None, None, hit.data, hit.data_tlb)
        else:
            place = (hit.object, symbol if by == "symbol" else None, None, None)
        events = found.setdefault(place, {})
        events[hit.event] = events.get(hit.event, NO_SAMPLES).plus(hit)
    order = list(dict.fromkeys(hit.event for hit in hits))

    def key(row: ProfileRow) -> tuple[list[int], tuple[str, ...]]:
        names = (row.object, row.symbol, row.data, row.data_tlb)
        most = [-row.events.get(event, NO_SAMPLES).estimated for event in order]
        return most, tuple(name or "" for name in names)

    return sorted((ProfileRow(*place, events) for place, events in found.items()), key=key)


def totals(hits: Hits) -> dict[str, Samples]:
    """All samples of each event that was sampled."""
    found = {event.name: NO_SAMPLES for event in hits.events if event.state == "counted"}
    for hit in hits.hits:
        found[hit.event] = found.get(hit.event, NO_SAMPLES).plus(hit)
    return found


def short_names(names: Sequence[str | None]) -> dict[str, str]:
    """Paths without their folders, where that leaves them apart."""
    paths = {name for name in names if name is not None and name.startswith("/")}
    short = {path: PurePosixPath(path).name or path for path in paths}
    taken = list(short.values())
    return {path: name if taken.count(name) == 1 else path for path, name in short.items()}
