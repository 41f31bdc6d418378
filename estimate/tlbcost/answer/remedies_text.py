# SPDX-License-Identifier: GPL-2.0-or-later
"""The section "What to do" of a report: what can be done about page walks, by memory region?"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tlbcost.answer.advice import narrower, next_steps
from tlbcost.answer.record import Estimate
from tlbcost.attribution.shares import RegionShare
from tlbcost.common import units
from tlbcost.remedies.advice import Advice
from tlbcost.remedies.price import Price
from tlbcost.remedies.remedy import Remedy

if TYPE_CHECKING:
    from rich.console import Console

# What is shown in full for each region; the others are named, and are in the JSON.
_SHOWN = 3
_COLUMNS = 80
_KINDS = {
    "heap": "the heap",
    "anonymous": "anonymous",
    "segment": "of the executable",
    "file": "a file",
    "tmpfs": "a file on tmpfs",
    "memfd": "memfd",
    "sysv": "a System V segment",
    "shared": "shared, without a file",
    "jit": "code made at run time",
}


def print_what_to_do(console: Console, estimate: Estimate) -> None:
    """The last section of the report: commands stay one line each, to be copied."""
    found = estimate.advice
    if not found:
        console.print("\nNext:", style="bold")
        for step in next_steps(estimate):
            console.print(f"  {step}", soft_wrap=True)
        return
    console.print("\nWhat to do:", style="bold")
    for step in narrower(estimate):
        console.print(f"  {step}", soft_wrap=True)
    for advice in found:
        for line in _advice_lines(advice):
            console.print(line, soft_wrap=True)
    for line in _common_lines(found):
        console.print(line, soft_wrap=True)


def _advice_lines(advice: Advice) -> list[str]:
    lines = [
        line for region in advice.regions for line in _wrapped(_region_words(region), "", "  ")
    ]
    if advice.standing is not None:
        page = advice.standing.page_bytes
        on = f"on {units.size(page)} pages: " if page is not None else ""
        lines += _wrapped(f"{on}{advice.standing.words}", "  ", "  ")
    for words, source in advice.cautions:
        lines += _wrapped(f"mind: {words} ({source})", "  ", "  ")
    if advice.none is not None:
        lines += _wrapped(advice.none, "  ", "  ")
    for remedy in advice.remedies[:_SHOWN]:
        lines += _remedy_lines(remedy)
    rest = advice.remedies[_SHOWN:]
    if rest:
        lines += _wrapped(
            "also, with --json: " + "; ".join(f"{each.code}: {each.words}" for each in rest),
            "  ",
            "  ",
        )
    return lines


def _region_words(region: RegionShare) -> str:
    parts = [
        f"{region.name} ({_KINDS.get(region.kind, region.kind)}, {units.size(region.mapped_bytes)})"
    ]
    told = []
    if region.misses_fraction is not None:
        what = "page walks" if region.samples is None else "misses sampled"
        told.append(f"{units.percent(region.misses_fraction)} of the {what}")
    if region.gain_fraction is not None:
        gain = region.gain_fraction
        alone = "by it alone" if region.samples is None else "by it alone, if by its share of them"
        told.append(
            f"{units.percent(gain.value)} of the run time to gain {alone}, {units.range_of(gain)}"
        )
    return ": ".join([*parts, "; ".join(told)]) if told else parts[0]


def _remedy_lines(remedy: Remedy) -> list[str]:
    lines = _wrapped(f"# {remedy.words}", "  ", "  # ")
    lines += [f"  {step}" for step in remedy.steps]
    if remedy.undo:
        lines += ["  # back:", *(f"  {step}" for step in remedy.undo)]
    if remedy.caution is not None:
        lines += _wrapped(f"mind: {remedy.caution}", "    ", "    ")
    price = price_words(remedy.price)
    if price:
        lines += _wrapped(f"price: {price}", "    ", "    ")
    if remedy.source is not None:
        lines.append(f"    see {remedy.source}")
    return lines


def _common_lines(found: Sequence[Advice]) -> list[str]:
    """What huge pages of a kind cost whatever they are for; each once."""
    lines: list[str] = []
    for pages, words in (("transparent", "transparent huge pages"), ("pool", "pages of a pool")):
        prices = [each.price for advice in found for each in advice.remedies if each.pages == pages]
        sentences = list(dict.fromkeys(text for price in prices for text in price.sentences))
        touches = [text for text in map(first_touch_words, prices[:1]) if text]
        if touches or sentences:
            text = "; ".join([*touches, *sentences])
            lines += _wrapped(f"Price of {words}: {text}.", "", "  ")
    return lines


def price_words(price: Price) -> str:
    """What a remedy alone costs, in one sentence."""
    parts: list[str] = []
    if price.pool_pages is not None and price.pool_page_bytes is not None:
        parts.append(f"{price.pool_pages} pages of {units.size(price.pool_page_bytes)} reserved")
    if price.growth_bytes is not None:
        grown = units.size(price.growth_bytes)
        parts.append(f"memory grows by {grown}" if price.growth_bytes else "memory does not grow")
    return "; ".join(parts)


def first_touch_words(price: Price) -> str | None:
    """What page faults cost; None: it is not known."""
    if price.fault_ns is None:
        return None
    text = f"the first touch of one takes {units.time(price.fault_ns.value)}"
    if price.base_fault_ns is not None:
        text += f", of a base page {units.time(price.base_fault_ns.value)}"
    return text


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text,
        _COLUMNS,
        initial_indent=first,
        subsequent_indent=later,
        break_on_hyphens=False,
        break_long_words=False,
    )
