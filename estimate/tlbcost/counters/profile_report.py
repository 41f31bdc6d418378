# SPDX-License-Identifier: GPL-2.0-or-later
"""How does the profile of `tlbcost record` and `tlbcost annotate` read?"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tlbcost.common import units
from tlbcost.counters.hits import Hits, SampledEvent, doubts
from tlbcost.counters.profile import (
    By,
    Profile,
    ProfilePlace,
    ProfileRow,
    rows,
    short_names,
    totals,
)

_COLUMNS = 80
_SAMPLES, _PERCENT = 10, 8
_NARROWEST = 12


def describe(profile: Profile) -> str:
    """The profile as text."""
    hits = profile.hits
    lines = [_estimate(event, *found) for event, found in _sampled(hits)]
    shown = rows(hits.hits, profile.symbols, profile.by)
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


def _sampled(hits: Hits) -> list[tuple[SampledEvent, tuple[int, int]]]:
    found = totals(hits)
    return [(event, found[event.name]) for event in hits.events if event.name in found]


def _estimate(event: SampledEvent, samples: int, weight: int) -> str:
    """Samples x period = events, and what the counter itself says."""
    if event.period is not None:
        text = f"{event.name}: {samples:,} samples x {event.period:,} = {units.count(weight)}"
    else:
        text = (
            f"{event.name}: {samples:,} samples, {event.frequency:,} a second, stand for "
            f"{units.count(weight)}"
        )
    return text if event.count is None else f"{text}; counted: {units.count(event.count)}"


def _table(profile: Profile, shown: Sequence[ProfileRow]) -> list[str]:
    events = [event.name for event, _ in _sampled(profile.hits)]
    whole = totals(profile.hits)
    short = short_names([row.place.object for row in shown] + [row.place.data for row in shown])
    titles = _titles(profile.by)
    pair = _SAMPLES + _PERCENT
    lines = ["".join(f"{_cut(name, pair - 2):>{pair}}" for name in events)]
    lines.append((f"{'samples':>{_SAMPLES}}{'%':>{_PERCENT}}" * len(events)) + "  " + titles[0])
    names = [_names(row.place, profile.by, short) for row in shown]
    kept = shown[: profile.limit]
    left = max(_NARROWEST, *(len(name[0]) for name in names[: len(kept)])) if kept else 0
    left = min(left, max(_NARROWEST, _COLUMNS - pair * len(events) - 2))
    if len(titles) > 1:
        lines[-1] = lines[-1][: -len(titles[0])] + f"{titles[0]:<{left}}  {titles[1]}"
    for row, name in zip(kept, names, strict=False):
        cells = "".join(_pair(row.found.get(event), whole[event]) for event in events)
        lines.append(f"{cells}  {name[0]:<{left}}  {'  '.join(name[1:])}".rstrip())
    if len(kept) < len(shown):
        lines.append(f"({len(shown) - len(kept)} more; --limit {len(shown)} shows all)")
    return lines


def _titles(by: By) -> tuple[str, ...]:
    return {"object": ("object",), "symbol": ("object", "symbol"), "mapping": ("data", "TLB")}[by]


def _names(place: ProfilePlace, by: By, short: dict[str, str]) -> tuple[str, ...]:
    def named(name: str | None) -> str:
        return units.NOT_OBTAINED if name is None else short.get(name, name)

    if by == "mapping":
        return named(place.data), place.data_tlb or units.NOT_OBTAINED
    if by == "symbol":
        return named(place.object), place.symbol or units.NOT_OBTAINED
    return (named(place.object),)


def _pair(found: tuple[int, int] | None, whole: tuple[int, int]) -> str:
    """Samples and their share; an event that was sampled, but not here, has none of them."""
    samples, weight = found or (0, 0)
    if not whole[1]:
        return f"{samples:>{_SAMPLES},}{units.NOT_OBTAINED:>{_PERCENT}}"
    # As profilers have always shown it: small shares must stay apart in a column.
    return f"{samples:>{_SAMPLES},}{100 * weight / whole[1]:>{_PERCENT}.2f}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 2]}.."
