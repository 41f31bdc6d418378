# SPDX-License-Identifier: GPL-2.0-or-later
"""The report that everyone reads: the answer, its reason, what to type and what to doubt.

At most 24 lines; what does not fit is left to --details.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common import units
from tlbcost.report.caveats import caveat_items
from tlbcost.report.commands import command_lines, command_of
from tlbcost.report.facts import cause_words, counted_words, memory_words, run_words
from tlbcost.report.gain_table import gain_table
from tlbcost.report.lines import LABEL, labelled, middle, visible, wrapped

MOST_LINES = 24
MOST_CAVEATS = 3
_MOST_REGIONS = 2
# Of what is not worth it, less is to be said.
_FEW_LINES = 15
_BACKENDS = {"sim": "simulation", "both": "hardware counters and simulation"}


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines; those of the largest `spare` are left out first, those of 0 never."""

    lines: list[str]
    spare: int = 0


def summary(document: EstimateDocument, width: int) -> tuple[list[str], list[str]]:
    """The lines of the verdict, and those below it."""
    verdict = wrapped(document.verdict.sentence, width)
    caveats = caveat_items(document.caveats, width)
    if document.placement is not None and document.placement.sentence is not None:
        # After the worst, which may be that all of it is wrong.
        caveats.insert(1, wrapped(document.placement.sentence, width, "NUMA ", " " * 5))
    if document.verdict.code == "not_worth_it":
        caveats = caveats[:1]
    shown = caveats[:MOST_CAVEATS]
    most = MOST_LINES if document.verdict.code != "not_worth_it" else _FEW_LINES
    while True:
        groups = _groups(document, shown, len(caveats) - len(shown), width)
        blocks = [block for group in groups for block in group]
        while (spare := max(blocks, key=lambda block: block.spare)).spare:
            if _height(groups) + len(verdict) <= most:
                break
            groups = [[block for block in group if block is not spare] for group in groups]
            blocks.remove(spare)
        if _height(groups) + len(verdict) <= most or len(shown) <= 1:
            break
        shown = shown[:-1]
    rest: list[str] = []
    for group in groups:
        lines = [line for block in group for line in block.lines]
        rest += ["", *lines] if lines else []
    return verdict, rest


def _height(groups: list[list[_Block]]) -> int:
    sizes = [sum(len(block.lines) for block in group) for group in groups]
    return sum(size + 1 for size in sizes if size)


def _groups(
    document: EstimateDocument, caveats: list[list[str]], hidden: int, width: int
) -> list[list[_Block]]:
    """The blocks of the report below the verdict, in groups with an empty line between."""
    commands = command_lines(document, width)
    ending = [_Block(_basis(document, hidden, width))]
    if caveats:
        lines = [line for item in caveats for line in item]
        ending.insert(0, _Block(["Before you rely on it:", *lines]))
    return [
        [_Block(gain_table(document)), _Block(_bound(document, width))],
        _facts(document, commands, width),
        [_Block(commands)],
        ending,
    ]


def _bound(document: EstimateDocument, width: int) -> list[str]:
    capped = ", capped at the user time" if document.bound_capped else ""
    share = units.percent(document.bound_fraction.value)
    return wrapped(f"Upper bound for all address translation: {share}{capped}.", width)


def _facts(document: EstimateDocument, commands: list[str], width: int) -> list[_Block]:
    command = command_of(document)
    blocks = []
    if not any(command in line for line in commands):
        shown = middle(visible(_from_here(command)), width - LABEL)
        blocks.append(_Block([f"{'Program':<{LABEL}}{shown}"]))
    for label, words in (("Run", run_words(document)), ("Counts", counted_words(document))):
        if words is not None:
            blocks.append(_Block(labelled(label, words, width)))
    memory = memory_words(document, width - LABEL)[:_MOST_REGIONS]
    for n, words in enumerate(memory):
        blocks.append(_Block(labelled("" if n else "Memory", words, width), spare=n))
    cause = cause_words(document)
    if cause is not None:
        blocks.append(_Block(labelled("Cause", cause, width)))
    return blocks


def _from_here(command: str) -> str:
    """The command line with the path of a program below this folder, or of the user, shortened."""
    for folder, shown in ((Path.cwd(), ""), (Path.home(), "~/")):
        if len(folder.parts) > 1 and command.startswith(f"{folder}/"):
            return shown + command.removeprefix(f"{folder}/")
    return command


def _basis(document: EstimateDocument, hidden: int, width: int) -> list[str]:
    counters, calibration = document.counters, document.calibration
    parts = [_BACKENDS.get(document.backend, "hardware counters")]
    if counters is not None:
        parts[0] += f" ({counters.pmu_name})"
    if document.simulation is not None and document.simulation.model == "simple":
        parts.append("simple model")
    parts.append("no calibration" if calibration is None else f"calibrated {calibration.date[:10]}")
    text = f"Basis: {', '.join(parts)}"
    tried = document.tried
    if tried is not None:
        where = "machine" if tried.here else "CPU"
        text += (
            f"; on {tried.programs} programs on this {where} the TLB part was off by "
            f"{100 * tried.mean_error_fraction:.1f} points on average, "
            f"{100 * tried.largest_error_fraction:.0f} at most"
        )
    more = f" and {hidden} more caveats" if hidden > 1 else " and a caveat" if hidden else ""
    return wrapped(f"{text}. Details{more}:\u00a0--details", width)
