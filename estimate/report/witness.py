# SPDX-License-Identifier: GPL-2.0-or-later
"""What hardware counters add to a report: their counts, and what the formulas make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tlbcost import units
from tlbcost.records import Interval
from tlbcost.report.content import Content, CountedPart
from tlbcost.report.tables import section, table
from tlbcost.report.words import range_of
from tlbcost.totals import CODE, DATA

if TYPE_CHECKING:
    from rich.console import Console

# In words, in the order of the report; formulas that only feed others are left out.
_SHARES = {
    "share": "page walks active",
    "data_share": "... for loads and stores",
    "code_share": "... for code",
    "pending_share": "page walks pending, per walker",
    "exposed_share": "stalled on translation",
    "tma_data_share": "top-down: loads and stores",
    "tma_code_share": "top-down: code",
    "ept_share": "second stage (EPT) walks",
}
_NUMBERS = {"walk_cycles": "cycles of one walk"}


def print_counts(console: Console, part: CountedPart) -> None:
    """Each event's count, and each formula's value."""
    counted = part.counted
    instructions = counted.values().get("instructions")
    shown = table("event", "count", "per 1000 instr.", "counted for")
    seen: set[str] = set()
    values = counted.values()
    for count in counted.counts:
        name = count.name or count.event
        if name in seen:
            continue
        seen.add(name)
        value = values.get(name) if count.name else count.value
        if value is None:
            shown.add_row(name, units.NOT_OBTAINED, units.NOT_OBTAINED, _words(count.state))
            continue
        rate = 1000 * value / instructions if instructions else None
        shown.add_row(
            name,
            units.count(round(value)),
            units.NOT_OBTAINED if rate is None else f"{rate:.3g}",
            units.NOT_OBTAINED
            if count.running_fraction is None
            else units.percent(count.running_fraction),
        )
    section(console, shown)
    shown = table("of the cycles counted", "value", "range")
    for names, text in ((_SHARES, range_of), (_NUMBERS, _range)):
        for name, words in names.items():
            figure = part.figures.get(name)
            if figure is None:
                continue
            middle = units.percent(figure.value) if names is _SHARES else f"{figure.value:.4g}"
            shown.add_row(words, middle, text(figure))
    if shown.row_count:
        section(console, shown)


def _words(state: str) -> str:
    return state.replace("_", " ")


def _range(figure: Interval) -> str:
    return f"{figure.low:.4g} to {figure.high:.4g}"


def print_comparison(console: Console, content: Content) -> None:
    """What both backends found, side by side."""
    counted, simulated = content.counted, content.simulated
    if counted is None or simulated is None:
        return
    shown = table("compared", "counters", "simulation")
    size = simulated.geometry.base.page_size_bytes
    for label, formula, sides in (
        ("page walks", "walks", (*DATA, *CODE)),
        ("... for loads and stores", "data_walks", DATA),
    ):
        figure = counted.figures.get(formula)
        walks = [simulated.counts.get((size, side)) for side in sides]
        shown.add_row(
            label,
            units.NOT_OBTAINED if figure is None else units.count(round(figure.value)),
            units.count(sum(each.stlb_misses for each in walks if each is not None)),
        )
    both = (counted.estimate, simulated.estimate)
    shown.add_row("bound", *(units.percent(each.bound_fraction.value) for each in both))
    shown.add_row("expected gain", *(range_of(each.expected_fraction) for each in both))
    section(console, shown)
