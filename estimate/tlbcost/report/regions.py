# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory and lines of code that miss, in a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.attribution.document import AttributionPart
from tlbcost.attribution.shares import SIMULATION, AllocationSite, CodeLine, RegionShare, words
from tlbcost.common import names, units
from tlbcost.common.console import section, table
from tlbcost.common.units import shortened
from tlbcost.memory.kinds import Backing
from tlbcost.report.facts import page_sizes

if TYPE_CHECKING:
    from rich.console import Console

_MOST_REGIONS, _MOST_SITES, _MOST_LINES = 6, 3, 5
# A part below this of the walks is one of the others.
_LEAST = 0.01
# Sites with less of their memory's walks are not shown.
_LEAST_SITE = 0.05
_NAME_COLUMNS, _SAMPLED_COLUMNS = 27, 23
_COSTED = {
    "windows": "Time is the modelled core's stall time on this region's translations, sampled "
    "and scaled to all its misses.",
    "prices": "Time is by calibrated costs of hits and walks, the same for all memory.",
}


def print_regions(console: Console, document: EstimateDocument) -> None:
    """Page walks by memory region and by code, simulated and sampled; nothing if not known."""
    sizes = [units.size(size) for size in page_sizes(document)]
    for attribution in (document.attribution, document.sampled_attribution):
        if attribution is None or not attribution.memory:
            continue
        if attribution.source == SIMULATION:
            _memory(console, attribution, sizes[0])
            _code(console, attribution, sizes)
        else:
            print_sampled(console, attribution)


def print_sampled(console: Console, attribution: AttributionPart) -> None:
    shown = table("sampled: memory", "on pages", "samples", "misses", "interval", "own gain")
    named, rest = split(attribution.memory)
    for region in named:
        shown.add_row(
            units.shortened(title(region), _SAMPLED_COLUMNS),
            on_pages(region.backed),
            units.count(region.samples or 0),
            _percent(region.misses_fraction),
            units.NOT_OBTAINED
            if region.misses_interval is None
            else units.range_of(region.misses_interval),
            _gain(region),
        )
    if rest:
        known = _sum([region.misses_fraction for region in named])
        shown.add_row(
            f"{len(rest)} others",
            "",
            units.count(sum(region.samples or 0 for region in rest)),
            _percent(None if known is None else max(0.0, 1 - known)),
        )
    section(console, shown)
    console.print(
        f"By {attribution.source}, in one more run. Shares are of the loads and stores that "
        "missed, with their 95 % interval. Each miss counts for the same part of the expected "
        "gain: samples do not show what misses on larger pages."
    )
    lines = worth_a_line(attribution)
    if lines:
        shown = table("sampled: code", "samples", "misses")
        for line in lines:
            shown.add_row(
                code_words(line), units.count(line.samples or 0), _percent(line.walks_fraction)
            )
        section(console, shown)


def _memory(console: Console, attribution: AttributionPart, base: str) -> None:
    shown = table(
        "page walks by memory", "touched", "on pages", f"walks {base}", "time", "own gain"
    )
    named, rest = split(attribution.memory)
    for region in named:
        shown.add_row(
            shortened(title(region), _NAME_COLUMNS),
            _size(region.touched_bytes),
            on_pages(region.backed),
            _percent(region.misses_fraction),
            _percent(region.time_fraction),
            _gain(region),
        )
        for site in _sites(region):
            shown.add_row(
                shortened(f"  {words(site)}", _NAME_COLUMNS), "", "",
                _percent(site.misses_fraction * (region.misses_fraction or 0.0)), "", "",
            )  # fmt: skip
    if rest:
        shown.add_row(
            f"{len(rest)} others",
            _size(sum(region.touched_bytes or 0 for region in rest)),
            "",
            _percent(_sum([region.misses_fraction for region in rest])),
            _percent(_sum([region.time_fraction for region in rest])),
            _percent(_sum([p.gain_fraction.value if p.gain_fraction else None for p in rest])),
        )
    section(console, shown)
    costed = "" if attribution.costed_by is None else f" {_COSTED[attribution.costed_by]}"
    console.print(f"Shares of all walks and of the time in translation.{costed}")


def _code(console: Console, attribution: AttributionPart, sizes: Sequence[str]) -> None:
    lines = worth_a_line(attribution)
    if not lines:
        return
    shown = table("page walks by code", f"walks {sizes[0]}", "share", f"left on {sizes[1]}")
    for line in lines:
        shown.add_row(
            code_words(line),
            units.count(line.walks),
            _percent(line.walks_fraction),
            _percent(None if line.huge_walks is None else _share(line.huge_walks, line.walks)),
        )
    section(console, shown)


def worth_a_line(attribution: AttributionPart) -> list[CodeLine]:
    first = attribution.code[:_MOST_LINES]
    return [line for line in first if (line.walks_fraction or 0.0) >= _LEAST]


def split(regions: Sequence[RegionShare]) -> tuple[list[RegionShare], list[RegionShare]]:
    named = [
        region
        for region in regions
        if max(region.time_fraction or 0.0, region.misses_fraction or 0.0) >= _LEAST
    ][:_MOST_REGIONS] or list(regions[:1])
    return named, [region for region in regions if region not in named]


def title(region: RegionShare) -> str:
    if region.kind == "segment" and region.name != "[bss]":
        return f"{names.shown(region.name)} ({'code' if region.code else 'data'})"
    name = names.shown(region.name)
    return f"{name} (code)" if region.code and region.kind == "file" else name


def on_pages(backed: Backing | None) -> str:
    return units.NOT_OBTAINED if backed is None else units.size(backed.page_bytes)


def _sites(region: RegionShare) -> list[AllocationSite]:
    if region.kind in ("file", "stack"):
        return []
    return [site for site in region.sites if site.misses_fraction >= _LEAST_SITE][:_MOST_SITES]


def code_words(line: CodeLine) -> str:
    site = line.site
    if site.function is None and site.object is None:
        return "code made at run time"
    return words(site)


def _gain(region: RegionShare) -> str:
    return units.NOT_OBTAINED if region.gain_fraction is None else units.percent(
        region.gain_fraction.value
    )  # fmt: skip


def _size(n_bytes: int | None) -> str:
    return units.NOT_OBTAINED if n_bytes is None else units.size(n_bytes)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _percent(share: float | None) -> str:
    return units.NOT_OBTAINED if share is None else units.percent(share)


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None
