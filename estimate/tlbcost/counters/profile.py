# SPDX-License-Identifier: GPL-2.0-or-later
"""How do the hits of a recording add up by object, by symbol or by mapping?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from tlbcost.counters.hits import Hits, SampleHit

By = Literal["object", "symbol", "mapping"]

# Rows at most unless another number is asked for.
DEFAULT_ROWS = 20


@dataclass(frozen=True, slots=True)
class ProfilePlace:
    """What rows of a profile are about. None: not known, or not asked for."""

    object: str | None
    symbol: str | None = None
    data: str | None = None
    data_tlb: str | None = None


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One place, with (samples, events that they stand for) by event; absent: no sample."""

    place: ProfilePlace
    found: dict[str, tuple[int, int]]


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
    found: dict[ProfilePlace, dict[str, tuple[int, int]]] = {}
    for hit, symbol in zip(hits, symbols, strict=True):
        place = _place(hit, symbol, by)
        events = found.setdefault(place, {})
        samples, weight = events.get(hit.event, (0, 0))
        events[hit.event] = samples + hit.samples, weight + hit.weight
    order = list(dict.fromkeys(hit.event for hit in hits))

    def key(row: ProfileRow) -> tuple[list[int], tuple[str, ...]]:
        place = row.place
        names = (place.object, place.symbol, place.data, place.data_tlb)
        return [-row.found.get(event, (0, 0))[1] for event in order], tuple(n or "" for n in names)

    return sorted((ProfileRow(place, events) for place, events in found.items()), key=key)


def _place(hit: SampleHit, symbol: str | None, by: By) -> ProfilePlace:
    if by == "mapping":
        return ProfilePlace(None, None, hit.data, hit.data_tlb)
    return ProfilePlace(hit.object, symbol if by == "symbol" else None)


def totals(hits: Hits) -> dict[str, tuple[int, int]]:
    """Samples, and the events that they stand for, of each event that was sampled."""
    found = {event.name: (0, 0) for event in hits.events if event.state == "counted"}
    for hit in hits.hits:
        samples, weight = found.get(hit.event, (0, 0))
        found[hit.event] = samples + hit.samples, weight + hit.weight
    return found


def short_names(names: Sequence[str | None]) -> dict[str, str]:
    """Paths without their folders, where that leaves them apart."""
    paths = {name for name in names if name is not None and name.startswith("/")}
    short = {path: PurePosixPath(path).name or path for path in paths}
    taken = list(short.values())
    return {path: name if taken.count(name) == 1 else path for path, name in short.items()}
