# SPDX-License-Identifier: GPL-2.0-or-later
"""What hardware counters add to a report: their counts, and what the formulas make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tlbcost.answer.content import Content, CountedPart
from tlbcost.common import units
from tlbcost.common.console import section, table
from tlbcost.counters.count_report import print_events, print_figures
from tlbcost.simulator.counts import CODE, DATA

if TYPE_CHECKING:
    from rich.console import Console


def print_counts(console: Console, part: CountedPart) -> None:
    """Each event's count, and the formulas that have a value."""
    print_events(console, part.counted)
    obtained = {name: figure for name, figure in part.figures.items() if figure is not None}
    print_figures(console, obtained)


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
    shown.add_row("expected gain", *(units.range_of(each.expected_fraction) for each in both))
    section(console, shown)
