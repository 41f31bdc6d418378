# SPDX-License-Identifier: GPL-2.0-or-later
"""The report that everyone reads: the answer, its reason, what to type and what to doubt.

At most 24 lines; what does not fit is left to --details.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.answer.record import Caveat
from tlbcost.common import units
from tlbcost.common.units import Interval
from tlbcost.copies.estimator import CopiesRecord
from tlbcost.measured.record import MeasuredGain
from tlbcost.report.facts import cause_words, counted_words, memory_words, run_words, stall_words
from tlbcost.report.lines import LABEL, cut, labelled, wrapped
from tlbcost.report.regions import command_lines, program_line
from tlbcost.run.outcome import region_words

_MOST_LINES = 24
# Of what is not worth it, less is to be said.
_FEW_LINES = 15
# What the verdict itself says, by what would decide it.
_SAID = {"quiet": ("T03", "T40")}
_BACKENDS = {"sim": "simulation", "both": "hardware counters and simulation"}
_HEAD = ("saved by", "share", "range")
_FAULTS, _MISSES = "fewer page faults", "cheaper TLB misses"
_MORE_PLACES = 2
# A gain that is about 0, and below this in any case, needs no row.
_NOTHING = 0.005
# The second says more of what the first is about, and is written with it.
_RELATED = {"T02": "T03"}
_INDENT = 5


@dataclass(frozen=True, slots=True)
class _Room:
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
        commands = command_lines(document, width)
        table = gain_table(document) if room.table else []
        shown = [cut(item, room.caveat_lines, width) for item in caveats[: room.caveats]]
        doubts = (
            ["Before you rely on it:", *(line for item in shown for line in item)] if shown else []
        )
        groups = [
            [*table, *_bound(document, width)],
            _facts(document, commands, room, width),
            commands,
            [*doubts, *_basis(document, len(caveats) - len(shown), room, width)],
        ]
        rest = [line for group in groups if group for line in ("", *group)]
        if len(verdict) + len(rest) <= (_FEW_LINES if few else _MOST_LINES):
            break
    return verdict, rest


def _bound(document: EstimateDocument, width: int) -> list[str]:
    if document.backend == "pairs":
        return wrapped(f"Its TLB misses are not known: {document.not_simulated}.", width)
    capped = ", capped at the user time" if document.bound_capped else ""
    share = units.percent(document.bound_fraction.value)
    text = f"Upper bound for all address translation: {share}{capped}"
    expected = modelled(document)
    if document.measured is not None and expected is not None:
        text += f"; the model expected {units.percent(expected.value)}, {units.range_of(expected)}"
    return wrapped(f"{text}.", width)


def modelled(document: EstimateDocument) -> Interval | None:
    for part in (document.counters, document.simulation):
        if part is not None:
            return part.expected_fraction
    return None


def measured_words(measured: MeasuredGain) -> str:
    also = "".join(f", with {each} on huge pages" for each in measured.also)
    if measured.source == "copies":
        return f"measured in {measured.rounds} copies of the running program{also}"
    how = "" if measured.source == "runs one by one" else ", in turns"
    return f"measured in {measured.rounds} pairs of runs{how}, by {measured.method}{also}"


def _facts(document: EstimateDocument, commands: list[str], room: _Room, width: int) -> list[str]:
    lines = [] if commands else program_line("Program", document, width)
    for label, words in (
        ("Region", None if document.region is None else region_words(document.region)),
        ("Run", run_words(document)),
        ("Counts", counted_words(document)),
        ("Memory", memory_words(document, width - LABEL) if room.memory else None),
        ("Stalls", stall_words(document) if room.record else None),
        ("Cause", cause_words(document)),
    ):
        lines += [] if words is None else labelled(label, words, width)
    return lines


def copies_words(copies: CopiesRecord) -> str:
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
        by = "" if document.backend == "pairs" else f"; modelled by {parts[0]}"
        parts[0] = f"{measured_words(document.measured)}{by}"
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


def gain_table(document: EstimateDocument) -> list[str]:
    measured = document.measured is not None and document.measured.system_fraction is not None
    faults, misses = ("kernel time", "user time") if measured else (_FAULTS, _MISSES)
    parts = {faults: document.fault_fraction, misses: document.expected_fraction}
    total = document.total_fraction
    known = {name: share for name, share in parts.items() if share is not None}
    some = {
        name: share
        for name, share in known.items()
        if not (
            units.percent(share.value) in (units.ZERO, units.ABOUT_ZERO) and share.high < _NOTHING
        )
    }
    # Without a row the others must still add up, unless all of it hardly matters.
    if document.verdict.code == "not_worth_it" or list(map(_cells, some.values())) == [
        _cells(total)
    ]:
        known = some
    if not known:
        return []
    shares = list(known.values())
    (values,) = _columns(shares, total, lambda share: (share.value,))
    if document.measured is not None:
        # Each interval is that of its own differences: ends do not add up.
        lows, highs = (
            [units.percent(end) for end in ends]
            for ends in zip(*((share.low, share.high) for share in (*shares, total)), strict=True)
        )
    else:
        lows, highs = _columns(shares, total, lambda share: (share.low, share.high))
    times = [units.NOT_OBTAINED] * (len(shares) + 1)
    cpu = document.program.cpu_ns
    if cpu is not None:
        saved = [share.value * cpu for share in shares]
        times = units.sum_of_times(saved, total.value * cpu)
    rows: list[tuple[str, ...]] = [
        (_name(name, value), value, low if low == high else f"{low} to {high}", time)
        for name, value, low, high, time in zip(
            [*known, "total"], values, lows, highs, times, strict=True
        )
    ]
    if document.fault_fraction is None:
        # What was not obtained is not nothing.
        rows.insert(0, (_FAULTS, *[units.NOT_OBTAINED] * 3))
    if len(known) == 1:
        rows.pop()
    last = "CPU time" if document.fractions_of == "CPU time" else "time"
    return _aligned([(*_HEAD, last), *rows])


def _name(name: str, value: str) -> str:
    # Huge pages may cost more to fault in than they save.
    return "page faults" if name == _FAULTS and value.startswith("-") else name


def _cells(share: Interval) -> list[str]:
    return [units.percent(end) for end in (share.value, share.low, share.high)]


def _columns(
    parts: Sequence[Interval], total: Interval, ends: Callable[[Interval], Sequence[float]]
) -> list[list[str]]:
    """The parts' ends and the total's in percent, with the fewest digits that add up."""
    columns: list[list[str]] = []
    for more in range(_MORE_PLACES + 1):
        columns = [
            [_percent(value, values[-1], more) for value in values]
            for values in zip(*map(ends, [*parts, total]), strict=True)
        ]
        for column, wanted in zip(columns, ends(total), strict=True):
            column[-1] = units.percent(wanted)
        if len(parts) == 1 or all(map(_adds_up, columns)):
            break
    return columns


def _percent(fraction: float, total: float, more: int) -> str:
    """As others write it; or with as many places more as the total needs."""
    if not more:
        return units.percent(fraction)
    places = more if abs(total) >= 0.0995 else more + 1
    return f"{100 * fraction:.{places}f} %"


def _adds_up(column: Sequence[str]) -> bool:
    *parts, total = (
        0.0 if cell == units.ABOUT_ZERO else float(cell.removesuffix(" %")) for cell in column
    )
    return units.percent(sum(parts) / 100) == units.percent(total / 100)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:<{widths[2]}}  "
        f"{row[3]:>{widths[3]}}"
        for row in rows
    ]


def caveat_items(caveats: Sequence[Caveat], width: int) -> list[list[str]]:
    """The lines of each caveat, in their order; related ones are one."""
    by_code = {caveat.code: caveat for caveat in caveats}
    merged = {second for first, second in _RELATED.items() if first in by_code}
    return [
        _lines(caveat, by_code.get(_RELATED.get(caveat.code, "")), width)
        for caveat in caveats
        if caveat.code not in merged
    ]


def _lines(caveat: Caveat, related: Caveat | None, width: int) -> list[str]:
    parts = [caveat.sentence, caveat.remedy]
    if related is not None:
        parts.append(f"{related.sentence.removesuffix('.')} ({related.code}).")
    return wrapped(" ".join(parts), width, f"{caveat.code:<{_INDENT}}", " " * _INDENT)
