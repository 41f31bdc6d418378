# SPDX-License-Identifier: GPL-2.0-or-later
"""How is told what can be done about the memory that pays: the section "What to do" of a report."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tlbcost.answer.content import Content
from tlbcost.answer.words import narrower, next_steps
from tlbcost.attribution.payers import Payer
from tlbcost.common import units
from tlbcost.common.interval import Interval
from tlbcost.remedies.advise import Advice, advise
from tlbcost.remedies.price import Price
from tlbcost.remedies.remedy import TUNABLES, Remedy, Situation

if TYPE_CHECKING:
    from rich.console import Console

# What is shown in full for each payer; the others are named, and are in the JSON.
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


def all_advice(content: Content) -> tuple[Advice, ...]:
    """What to do about each payer; empty where nothing is to be done, or nothing was attributed."""
    if content.estimate.verdict in ("not_worth_it", "already_huge"):
        return ()
    around = content.surroundings
    attribution = content.attribution
    if around is None or around.settings is None or attribution is None:
        return ()
    faults = tuple(
        None if costs is None else costs.fault_ns
        for costs in (content.base_costs, content.huge_costs)
    )
    situation = Situation(
        content.argv,
        around.settings,
        around.glibc,
        around.hugectl,
        content.runs,
        (faults[0], faults[1]),
        {**os.environ, TUNABLES: around.glibc_tunables or ""},
    )
    return advise(attribution.payers, situation)


def first_steps(content: Content) -> list[str]:
    """The simplest remedy of each payer, as lines to type; lines with # explain."""
    found = all_advice(content)
    if not found:
        return next_steps(content)
    steps = narrower(content)
    for advice in found:
        for remedy in advice.remedies[:1]:
            steps += [f"# {remedy.words}:", *remedy.steps]
    return steps


def print_what_to_do(console: Console, content: Content) -> None:
    """The last section of the report: commands stay one line each, to be copied."""
    found = all_advice(content)
    if not found:
        console.print("\nNext:", style="bold")
        for step in next_steps(content):
            console.print(f"  {step}", soft_wrap=True)
        return
    console.print("\nWhat to do:", style="bold")
    for step in narrower(content):
        console.print(f"  {step}", soft_wrap=True)
    for advice in found:
        for line in _advice_lines(advice):
            console.print(line, soft_wrap=True)
    for line in _common_lines(found):
        console.print(line, soft_wrap=True)


def _advice_lines(advice: Advice) -> list[str]:
    lines = [line for payer in advice.payers for line in _wrapped(_payer_words(payer), "", "  ")]
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


def _payer_words(payer: Payer) -> str:
    parts = [
        f"{payer.name} ({_KINDS.get(payer.kind, payer.kind)}, {units.size(payer.mapped_bytes)})"
    ]
    told = []
    if payer.misses_fraction is not None:
        what = "page walks" if payer.samples is None else "misses sampled"
        told.append(f"{units.percent(payer.misses_fraction)} of the {what}")
    if payer.gain_fraction is not None:
        gain = payer.gain_fraction
        alone = "by it alone" if payer.samples is None else "by it alone, if by its share of them"
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


def what_to_do(content: Content) -> list[dict[str, object]]:
    """The section for programs."""
    return [_advice(advice) for advice in all_advice(content)]


def _advice(advice: Advice) -> dict[str, object]:
    standing = advice.standing
    return {
        "program": advice.payers[0].program,
        "payers": [
            {"name": payer.name, "kind": payer.kind, "code": payer.code} for payer in advice.payers
        ],
        "page_bytes": standing.page_bytes if standing else None,
        "thp_eligible": standing.eligible if standing else None,
        "reason": standing.reason if standing else None,
        "why_not_huge": standing.words if standing else None,
        "no_remedy": advice.none,
        "cautions": [{"words": words, "source": source} for words, source in advice.cautions],
        "remedies": [_remedy(remedy) for remedy in advice.remedies],
    }


def _remedy(remedy: Remedy) -> dict[str, object]:
    price = remedy.price
    return {
        "code": remedy.code,
        "form": remedy.form,
        "words": remedy.words,
        "pages": remedy.pages,
        "steps": list(remedy.steps),
        "undo": list(remedy.undo),
        "caution": remedy.caution,
        "source": remedy.source,
        "price": {
            "pool_pages": price.pool_pages,
            "pool_page_bytes": price.pool_page_bytes,
            "growth_bytes": price.growth_bytes,
            "fault_ns": _interval(price.fault_ns),
            "base_fault_ns": _interval(price.base_fault_ns),
            "sentences": list(price.sentences),
        },
    }


def _interval(interval: Interval | None) -> dict[str, float] | None:
    return None if interval is None else asdict(interval)
