# SPDX-License-Identifier: GPL-2.0-or-later
"""How does the profile of `tlbcost record` and `tlbcost annotate` read?"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tlbcost.common import units
from tlbcost.counters.hits import SampledEvent, doubts
from tlbcost.counters.profile import (
    NO_SAMPLES,
    By,
    Profile,
    ProfileRow,
    Samples,
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
    whole = totals(hits)
    lines = [_estimate(e, whole[e.name]) for e in hits.events if e.name in whole]
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


def _estimate(event: SampledEvent, found: Samples) -> str:
    """Samples x period = events, and what the counter itself says."""
    text = f"{event.name}: {found.samples:,} samples"
    if event.period is not None:
        text += f" x {event.period:,} = {units.count(found.estimated)}"
    else:
        text += f", {event.frequency:,} a second, stand for {units.count(found.estimated)}"
    return text if event.count is None else f"{text}; counted: {units.count(event.count)}"


def _table(profile: Profile, shown: Sequence[ProfileRow]) -> list[str]:
    whole = totals(profile.hits)
    events = [event.name for event in profile.hits.events if event.name in whole]
    short = short_names([row.object for row in shown] + [row.data for row in shown])
    titles = _titles(profile.by)
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


def _titles(by: By) -> tuple[str, ...]:
    return {"object": ("object",), "symbol": ("object", "symbol"), "mapping": ("data", "TLB")}[by]


def _names(row: ProfileRow, by: By, short: dict[str, str]) -> tuple[str, ...]:
    def named(name: str | None) -> str:
        return units.NOT_OBTAINED if name is None else short.get(name, name)

    if by == "mapping":
        return named(row.data), row.data_tlb or units.NOT_OBTAINED
    if by == "symbol":
        return named(row.object), row.symbol or units.NOT_OBTAINED
    return (named(row.object),)


def _pair(found: Samples, whole: Samples) -> str:
    """Samples and their share."""
    # As profilers have always shown it: small shares must stay apart in a column.
    share = f"{100 * found.estimated / whole.estimated:.2f}" if whole.estimated else None
    return f"{found.samples:>{_SAMPLES},}{share or units.NOT_OBTAINED:>{_PERCENT}}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 2]}.."
