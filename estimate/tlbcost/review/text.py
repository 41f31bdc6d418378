# SPDX-License-Identifier: GPL-2.0-or-later
"""How does a review read in a terminal, and how do two compare?"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import print_whole, table
from tlbcost.common.interval import Interval
from tlbcost.report.lines import visible, wrapped
from tlbcost.review.document import HostPool, ReviewDocument, ReviewRow
from tlbcost.review.gate import ReviewComparison

if TYPE_CHECKING:
    from rich.console import Console

_LONGEST_NAME = 28
# From here on decimals say nothing.
_WHOLE = 100


def name_of(row: ReviewRow) -> str:
    """A service and its machine on one line."""
    return f"{visible(row.service)} on {visible(row.machine)}"


def gain_words(gain: Interval | None) -> str:
    """A gain with its interval: '12 % (3.0 % to 20 %)'."""
    if gain is None:
        return units.NOT_OBTAINED
    return f"{units.percent(gain.value)} ({units.range_of(gain)})"


def number_words(found: Interval | None) -> str:
    """A number of hosts, or a price, with its interval."""
    if found is None:
        return units.NOT_OBTAINED
    places = 0 if abs(found.value) >= _WHOLE else 1
    low, value, high = (f"{each:,.{places}f}" for each in (found.low, found.value, found.high))
    return f"{value} ({low} to {high})"


def bytes_words(found: int | None) -> str:
    """A size, or NA."""
    return units.NOT_OBTAINED if found is None else units.size(found)


def pool_words(pool: HostPool) -> str:
    """What a host of this type reserves."""
    text = f"{visible(pool.machine)}: pools need {units.size(pool.needed_bytes)} of each host"
    if pool.most_bytes is not None:
        text += f", and the policy allows {units.size(pool.most_bytes)}"
    if pool.left_out:
        text += f"; these do not fit: {', '.join(map(visible, pool.left_out))}"
    return text


def print_report(review: ReviewDocument, stream: TextIO) -> None:
    """The decision table, the reasons, pools and broken rules."""

    def fill(console: Console) -> None:
        rows = table("service", "machine", "decision", "gain", "hosts saved")
        for row in review.rows:
            hosts = None if row.hosts_saved is None else f"{row.hosts_saved.value:.1f}"
            rows.add_row(
                units.middle(visible(row.service), _LONGEST_NAME),
                units.middle(visible(row.machine), _LONGEST_NAME),
                row.decision,
                gain_words(row.gain_fraction),
                hosts or units.NOT_OBTAINED,
            )
        console.print(rows)
        console.print()
        for row in review.rows:
            _lines(console, f"{row.decision}: {name_of(row)}: {row.why}")
        for pool in review.pools:
            if pool.needed_bytes or pool.left_out:
                _lines(console, pool_words(pool))
        for rule in review.broken:
            where = f"{visible(rule.service)} on {visible(rule.machine)}"
            _lines(console, f"GATE {rule.rule}: {where}: {rule.why}")

    print_whole(fill, stream)


def print_comparison(found: ReviewComparison, stream: TextIO) -> None:
    """What changed since the first review; differences that noise explains are 'within'."""

    def fill(console: Console) -> None:
        rows = table("service", "machine", "first", "second", "change")
        for row in found.rows:
            rows.add_row(
                units.middle(visible(row.service), _LONGEST_NAME),
                units.middle(visible(row.machine), _LONGEST_NAME),
                gain_words(row.first),
                gain_words(row.second),
                row.change,
            )
        console.print(rows)
        for row in found.rows:
            first, second = row.decisions
            if first != second:
                who = f"{visible(row.service)} on {visible(row.machine)}"
                _lines(console, f"{who}: {first or 'not there'}, now {second or 'not there'}")

    print_whole(fill, stream)


def _lines(console: Console, text: str) -> None:
    for line in wrapped(text, console.width, "", "  "):
        console.print(line, soft_wrap=True)
