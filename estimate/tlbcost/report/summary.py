# SPDX-License-Identifier: GPL-2.0-or-later
"""The report that everyone reads: the answer, its reason, what to type and what to doubt.

At most 24 lines; what does not fit is left to --details.
"""

from __future__ import annotations

from dataclasses import dataclass

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common import units
from tlbcost.common.interval import Interval
from tlbcost.copies.record import CopiesRecord
from tlbcost.measured.record import MeasuredGain
from tlbcost.report.caveats import caveat_items
from tlbcost.report.commands import command_lines, program_line
from tlbcost.report.facts import cause_words, counted_words, memory_words, run_words
from tlbcost.report.gain_table import gain_table
from tlbcost.report.lines import LABEL, cut, labelled, wrapped
from tlbcost.run.region import region_words

_MOST_LINES = 24
# Of what is not worth it, less is to be said.
_FEW_LINES = 15
# What the verdict itself says, by what would decide it.
_SAID = {"quiet": ("T03", "T40")}
_BACKENDS = {"sim": "simulation", "both": "hardware counters and simulation"}


@dataclass(frozen=True, slots=True)
class _Room:
    """How much is shown: caveats and their lines, the track record, memory, a table."""

    caveats: int
    caveat_lines: int = 99
    record: bool = False
    memory: bool = True
    table: bool = True


# The first that fits is taken.
_ROOMS = (
    _Room(3, record=True),
    _Room(2, record=True),
    _Room(1, record=True),
    _Room(1),
    _Room(1, 2),
    _Room(0),
)
_FEW_ROOMS = (
    _Room(1, record=True),
    _Room(1),
    _Room(1, table=False),
    _Room(1, 2, table=False),
    _Room(1, 2, memory=False, table=False),
    _Room(0, memory=False, table=False),
)


def summary(document: EstimateDocument, width: int) -> tuple[list[str], list[str]]:
    """The lines of the verdict, and those below it."""
    verdict = wrapped(document.verdict.sentence, width)
    if document.verdict.service_sentence is not None:
        verdict += wrapped(document.verdict.service_sentence, width)
    said = _SAID.get(document.verdict.decided_by or "", ())
    caveats = caveat_items([each for each in document.caveats if each.code not in said], width)
    if document.placement is not None and document.placement.sentence is not None:
        # After the worst, which may be that all of it is wrong.
        caveats.insert(1, wrapped(document.placement.sentence, width, "NUMA ", " " * 5))
    few = document.verdict.code == "not_worth_it"
    rest: list[str] = []
    for room in _FEW_ROOMS if few else _ROOMS:
        rest = _below(document, caveats, room, width)
        if len(verdict) + len(rest) <= (_FEW_LINES if few else _MOST_LINES):
            break
    return verdict, rest


def _below(
    document: EstimateDocument, caveats: list[list[str]], room: _Room, width: int
) -> list[str]:
    """Groups of lines with an empty line before each."""
    commands = command_lines(document, width)
    table = gain_table(document) if room.table else []
    shown = [cut(item, room.caveat_lines, width) for item in caveats[: room.caveats]]
    doubts = ["Before you rely on it:", *(line for item in shown for line in item)] if shown else []
    groups = [
        [*table, *_bound(document, width)],
        _facts(document, commands, room, width),
        commands,
        [*doubts, *_basis(document, len(caveats) - len(shown), room, width)],
    ]
    return [line for group in groups if group for line in ("", *group)]


def _bound(document: EstimateDocument, width: int) -> list[str]:
    capped = ", capped at the user time" if document.bound_capped else ""
    share = units.percent(document.bound_fraction.value)
    text = f"Upper bound for all address translation: {share}{capped}"
    expected = modelled(document)
    if document.measured is not None and expected is not None:
        text += f"; the model expected {units.percent(expected.value)}, {units.range_of(expected)}"
    return wrapped(f"{text}.", width)


def modelled(document: EstimateDocument) -> Interval | None:
    """What the model expects of cheaper TLB misses; None: there is no model's answer."""
    for part in (document.counters, document.simulation):
        if part is not None:
            return part.expected_fraction
    return None


def measured_words(measured: MeasuredGain) -> str:
    """What was measured, and how often."""
    if measured.source == "copies":
        also = "".join(f", with {each} on huge pages" for each in measured.also)
        return f"measured in {measured.rounds} copies of the running program{also}"
    how = "" if measured.source == "runs one by one" else ", in turns"
    return f"measured in {measured.rounds} pairs of runs{how}, by {measured.method}"


def _facts(document: EstimateDocument, commands: list[str], room: _Room, width: int) -> list[str]:
    lines = [] if commands else program_line("Program", document, width)
    for label, words in (
        ("Region", None if document.region is None else region_words(document.region)),
        ("Run", run_words(document)),
        ("Counts", counted_words(document)),
        ("Memory", memory_words(document, width - LABEL) if room.memory else None),
        ("Cause", cause_words(document)),
    ):
        lines += [] if words is None else labelled(label, words, width)
    return lines


def copies_words(copies: CopiesRecord) -> str:
    """What the answer rests on where the program was followed in copies."""
    cost = copies.added_cpu_fraction
    added = "" if cost is None else f" (+{units.percent(cost)} CPU time)"
    return f"{copies.windows} copies of the running program{added}"


def _basis(document: EstimateDocument, hidden: int, room: _Room, width: int) -> list[str]:
    counters, calibration = document.counters, document.calibration
    parts = [_BACKENDS.get(document.backend, "hardware counters")]
    copies = None if document.simulation is None else document.simulation.copies
    if copies is not None:
        parts = [copies_words(copies)]
    if document.measured is not None:
        parts[0] = f"{measured_words(document.measured)}; modelled by {parts[0]}"
    if counters is not None:
        parts[0] += f" ({counters.pmu_name})"
    if document.simulation is not None and document.simulation.model == "simple":
        parts.append("simple model")
    parts.append("no calibration" if calibration is None else f"calibrated {calibration.date[:10]}")
    text = f"Basis: {', '.join(parts)}"
    tried = document.tried if room.record else None
    if tried is not None:
        where = "machine" if tried.here else "CPU"
        engine = "" if copies is None or tried.by_copies else " in Valgrind"
        part = f"the TLB part{engine}" if document.measured is None else "user time saved"
        text += (
            f"; on {tried.programs} programs on this {where} {part} was off by "
            f"{100 * tried.mean_error_fraction:.1f} points on average, "
            f"{100 * tried.largest_error_fraction:.0f} at most"
        )
    more = f"{hidden} more caveats" if hidden > 1 else "A caveat more" if hidden else "Details"
    return wrapped(f"{text}. {more}:\u00a0--details", width)
