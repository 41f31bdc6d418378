# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory and code that miss, in a report, and the remedies with their commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.attribution.document import (
    SIMULATION,
    AttributionPart,
    CodeLine,
    RegionShare,
    curve_sentence,
    words,
)
from tlbcost.common import names, units
from tlbcost.common.console import section, table
from tlbcost.common.units import middle, shortened
from tlbcost.measured.record import grown_words
from tlbcost.memory.eligibility import Backing
from tlbcost.remedies.advice import AdvicePart, RegionName
from tlbcost.remedies.remedy import Remedy, RemedyCost
from tlbcost.report.facts import page_sizes, region_of
from tlbcost.report.lines import LABEL, labelled, visible, wrapped
from tlbcost.run.outcome import trial_command

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
            _sites_table(console, attribution)
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
            units.percent(region.misses_fraction),
            units.range_of(region.misses_interval),
            _gain(region),
        )
    if rest:
        known = _sum([region.misses_fraction for region in named])
        shown.add_row(
            f"{len(rest)} others",
            "",
            units.count(sum(region.samples or 0 for region in rest)),
            units.percent(None if known is None else max(0.0, 1 - known)),
        )
    section(console, shown)
    console.print(
        f"By {attribution.source}. Shares are of the loads and stores that "
        "missed, with their 95 % interval. Each miss counts for the same part of the expected "
        "gain: samples do not show what misses on larger pages."
    )
    lines = worth_a_line(attribution)
    if lines:
        shown = table("sampled: code", "samples", "misses")
        for line in lines:
            shown.add_row(
                code_words(line), units.count(line.samples or 0), units.percent(line.walks_fraction)
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
            units.size(region.touched_bytes),
            on_pages(region.backed),
            units.percent(region.misses_fraction),
            units.percent(region.time_fraction),
            _gain(region),
        )
        sites = [site for site in region.sites if site.misses_fraction >= _LEAST_SITE]
        for site in () if region.kind in ("file", "stack") else sites[:_MOST_SITES]:
            shown.add_row(
                shortened(f"  {words(site)}", _NAME_COLUMNS), "", "",
                units.percent(site.misses_fraction * (region.misses_fraction or 0.0)), "", "",
            )  # fmt: skip
    if rest:
        shown.add_row(
            f"{len(rest)} others",
            units.size(sum(region.touched_bytes or 0 for region in rest)),
            "",
            units.percent(_sum([region.misses_fraction for region in rest])),
            units.percent(_sum([region.time_fraction for region in rest])),
            units.percent(_sum([part.gain_fraction and part.gain_fraction.value for part in rest])),
        )
    section(console, shown)
    costed = "" if attribution.costed_by is None else f" {_COSTED[attribution.costed_by]}"
    blocks = "" if attribution.blocks is None else f" {curve_sentence(attribution.blocks)}"
    console.print(f"Shares of all walks and of the time in translation.{costed}{blocks}")


def _code(console: Console, attribution: AttributionPart, sizes: Sequence[str]) -> None:
    lines = worth_a_line(attribution)
    if not lines:
        return
    shown = table("page walks by code", f"walks {sizes[0]}", "share", f"left on {sizes[1]}")
    for line in lines:
        shown.add_row(
            code_words(line),
            units.count(line.walks),
            units.percent(line.walks_fraction),
            left_on_huge(line),
        )
    section(console, shown)


def _sites_table(console: Console, attribution: AttributionPart) -> None:
    if not attribution.sites:
        return
    shown = table("allocated by", "gain", "at once", "adds")
    for site in attribution.sites[:_MOST_LINES]:
        if site.gain_fraction >= _LEAST:
            shown.add_row(
                shortened(words(site.site), _NAME_COLUMNS), units.percent(site.gain_fraction),
                units.size(site.allocated_bytes), units.size(site.growth_bytes),
            )  # fmt: skip
    section(console, shown)
    console.print(
        "Parts of what huge pages save in anonymous memory, the most bytes at once, and what huge "
        "pages add."
    )


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


def code_words(line: CodeLine) -> str:
    site = line.site
    if site.function is None and site.object is None:
        return "code made at run time"
    return words(site)


def left_on_huge(line: CodeLine) -> str:
    """The part of its walks that stays."""
    left = line.huge_walks
    return units.percent(left / line.walks if left is not None and line.walks else None)


def _gain(region: RegionShare) -> str:
    return units.percent(region.gain_fraction and region.gain_fraction.value)


def _sum(parts: Sequence[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


_KINDS = {
    "heap": "heap",
    "anonymous": "anonymous",
    "segment": "executable",
    "file": "file",
    "tmpfs": "file on tmpfs",
    "memfd": "memfd",
    "sysv": "System V segment",
    "shared": "shared, without a file",
    "jit": "code made at run time",
}
_MOST_STEPS = 3
_DOTS = "..."


def print_remedies(console: Console, document: EstimateDocument) -> None:
    """What can be done; commands stay one line each, to be copied."""
    found, width = document.what_to_do, console.width
    lines = [line for advice in found for line in _advice_lines(document, advice, width)]
    lines += _common_lines(found, width)
    if not found:
        lines = [f"  {step}" for step in document.next_steps]
    console.print("\nWhat to do:", style="bold")
    for line in lines:
        console.print(line, soft_wrap=True)


def _advice_lines(document: EstimateDocument, advice: AdvicePart, width: int) -> list[str]:
    lines: list[str] = []
    for name in advice.regions:
        lines += wrapped(
            _region_words(name, region_of(document, advice.program, name)), width, "", "  "
        )
    if advice.allocated_by is not None:
        lines.append(f"  allocated by {advice.allocated_by}")
    if advice.why_not_huge is not None:
        page = advice.page_bytes
        on = f"on {units.size(page)} pages: " if page is not None else ""
        lines += wrapped(f"{on}{advice.why_not_huge}", width, "  ", "  ")
    for caution in advice.cautions:
        lines += wrapped(f"note: {caution.words} ({caution.source})", width, "  ", "  ")
    if advice.no_remedy is not None:
        lines += wrapped(advice.no_remedy, width, "  ", "  ")
    for remedy in advice.remedies:
        lines += _remedy_lines(remedy, width)
    return lines


def _region_words(name: RegionName, region: RegionShare | None) -> str:
    kind, figures = _KINDS.get(name.kind, name.kind), []
    if region is None:
        return f"{name.name} ({kind})"
    if region.misses_fraction is not None:
        what = "page walks" if region.samples is None else "misses sampled"
        figures.append(f"{units.percent(region.misses_fraction)} of the {what}")
    if region.gain_fraction is not None:
        gain = region.gain_fraction
        alone = "gain from it alone" if region.samples is None else "gain by its share of them"
        figures.append(f"{units.percent(gain.value)} {alone}, {units.range_of(gain)}")
    text = f"{name.name} ({kind}, {units.size(region.mapped_bytes)})"
    return f"{text}: {'; '.join(figures)}" if figures else text


def _remedy_lines(remedy: Remedy, width: int) -> list[str]:
    lines = wrapped(f"# {remedy.words}", width, "  ", "  # ")
    lines += [f"  {step}" for step in remedy.steps]
    if remedy.undo:
        lines += ["  # to undo it:", *(f"  {step}" for step in remedy.undo)]
    if remedy.proof is not None:
        lines += ["  # to prove it:", f"  {remedy.proof}"]
    if remedy.caution is not None:
        lines += wrapped(f"note: {remedy.caution}", width, "    ", "    ")
    cost = cost_words(remedy)
    if cost:
        lines += wrapped(f"cost: {cost}", width, "    ", "    ")
    if remedy.source is not None:
        lines.append(f"    see {remedy.source}")
    return lines


def _common_lines(found: Sequence[AdvicePart], width: int) -> list[str]:
    """What huge pages of a kind cost whatever they are for; each once."""
    lines: list[str] = []
    for pages, kind in (("transparent", "transparent huge pages"), ("pool", "pages of a pool")):
        costs = [each.cost for advice in found for each in advice.remedies if each.pages == pages]
        sentences = list(dict.fromkeys(text for cost in costs for text in cost.sentences))
        touches = [text for text in map(_first_touch, costs[:1]) if text]
        if touches or sentences:
            text = "; ".join([*touches, *sentences])
            lines += wrapped(f"Cost of {kind}: {text}.", width, "", "  ")
    return lines


def cost_words(remedy: Remedy) -> str:
    cost, parts = remedy.cost, []
    if cost.pool_pages is not None and cost.pool_page_bytes is not None:
        parts.append(f"{cost.pool_pages} pages of {units.size(cost.pool_page_bytes)} reserved")
    growth = growth_words(remedy)
    return "; ".join([*parts, growth] if growth is not None else parts)


def _first_touch(cost: RemedyCost) -> str | None:
    if cost.fault_ns is None:
        return None
    text = f"the first touch of one takes {units.time(cost.fault_ns.value)}"
    if cost.base_fault_ns is not None:
        text += f", of a base page {units.time(cost.base_fault_ns.value)}"
    return text


def command_of(document: EstimateDocument) -> str:
    return names.command_line(document.program.argv)


def first_remedy(document: EstimateDocument) -> Remedy | None:
    """The simplest remedy of the memory with the largest gain; None: there is none."""
    first = document.what_to_do[0] if document.what_to_do else None
    return first.remedies[0] if first is not None and first.remedies else None


def command_lines(document: EstimateDocument, width: int) -> list[str]:
    """What to try and what proves it; a command line that is too long is written as `...`."""
    remedy = first_remedy(document)
    if remedy is None:
        first = document.what_to_do[0] if document.what_to_do else None
        if first is not None and first.no_remedy is not None:
            return labelled("Try", first.no_remedy, width)
        if document.verdict.code == "already_huge" and document.total_fraction.high <= 0:
            line = f"tlbcost run --no-thp -- {command_of(document)}"
            return _explained(document, _rows("Try", [_fitted(document, line, width)]), width)
        if document.verdict.code in ("not_worth_it", "already_huge"):
            return []
        where = "" if document.program.runs else "   (where the program runs)"
        trial = f"{trial_command(document.region)} -- {command_of(document)}"
        line = _fitted(document, trial, width - len(where))
        return _explained(document, _rows("Prove", [f"{line}{where}"]), width)
    measured = document.measured
    growth = growth_words(remedy)
    if measured is not None and measured.growth_bytes is not None:
        growth = grown_words(measured.growth_bytes)
    steps = [step for step in remedy.steps if not step.startswith("#")]
    if remedy.form == "code":
        lines = labelled("Try", f"{remedy.words}: {' '.join(steps)}", width)
    else:
        lines = _rows("Try", [_fitted(document, step, width) for step in steps[:_MOST_STEPS]])
    if growth is not None:
        short = f"{lines[-1]}   ({growth})"
        lines = (
            [*lines[:-1], short] if len(short) <= width else [*lines, f"{' ' * LABEL}({growth})"]
        )
    if remedy.proof is not None:
        lines += _rows("Prove", [_fitted(document, remedy.proof, width)])
    return _explained(document, lines, width)


def _explained(document: EstimateDocument, lines: list[str], width: int) -> list[str]:
    if any(command_of(document) in line for line in lines):
        return lines
    return [*lines, *program_line(_DOTS, document, width)]


def program_line(label: str, document: EstimateDocument, width: int) -> list[str]:
    command = command_of(document)
    # Relative to where we are, or to the user's folder; either may be gone.
    for place, shown in ((Path.cwd, ""), (Path.home, "~/")):
        try:
            folder = place()
        except (OSError, RuntimeError):
            continue
        if len(folder.parts) > 1 and command.startswith(f"{folder}/"):
            command = shown + command.removeprefix(f"{folder}/")
            break
    return _rows(label, [middle(visible(command), width - LABEL)])


def _rows(label: str, rows: list[str]) -> list[str]:
    return [f"{label if n == 0 else '':<{LABEL}}{row}" for n, row in enumerate(rows)]


def _fitted(document: EstimateDocument, step: str, width: int) -> str:
    room = width - LABEL
    command = command_of(document)
    if len(step) > room or not step.isprintable():
        step = step.replace(command, _DOTS)
    return middle(visible(step), room)


def growth_words(remedy: Remedy) -> str | None:
    growth = remedy.cost.growth_bytes
    if growth is None:
        return None
    return f"{units.size(growth)} more memory" if growth else "no extra memory"
