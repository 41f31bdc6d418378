# SPDX-License-Identifier: GPL-2.0-or-later
"""How does a record of predictions and trials look: as text, and in doc/accuracy/?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, TextIO

from tlbcost.accuracy.checks import CheckedPrediction, Record, Way
from tlbcost.accuracy.errors import Accuracy, Predicted, accuracy
from tlbcost.common import units
from tlbcost.common.console import print_whole, section, table
from tlbcost.common.interval import Interval

if TYPE_CHECKING:
    from rich.console import Console


_MOST_CHECKS, _MOST_LEFT_OUT = 8, 2


def points(fraction: float) -> str:
    """A difference of shares in percentage points: '+2.1'."""
    return f"{100 * fraction:+.1f}"


def print_record(record: Record, file: TextIO, *, details: bool) -> None:
    """Print what the checks come to, and their table; without `details`, the largest errors."""

    def fill(console: Console) -> None:
        for n, sentence in enumerate(sentences(record)):
            console.print(sentence, style="bold" if n == 0 else None)
        shown = record.checks if details else _worst(record)
        if shown:
            _table(console, record, shown)
        if len(shown) < len(record.checks):
            console.print(f"The {len(shown)} largest errors of {len(record.checks)}: --details")
        for n, (program, why) in enumerate(record.left_out):
            if not details and n == _MOST_LEFT_OUT:
                console.print(f"Not compared: {len(record.left_out) - n} more")
                break
            console.print(f"Not compared: {program.name}: {why}")

    print_whole(fill, file)


def _worst(record: Record) -> Sequence[CheckedPrediction]:
    """The largest errors, in the order of the record."""
    way = record.ways[0] if record.ways else None
    by_error = sorted(record.checks, key=lambda check: -abs(check.expected_error(way) or 0))
    return [check for check in record.checks if check in by_error[:_MOST_CHECKS]]


def _table(console: Console, record: Record, checks: Sequence[CheckedPrediction]) -> None:
    ways: tuple[Way | None, ...] = record.ways or (None,)
    heads = [way or "error" for way in ways]
    rows = table("program", "bound", "expected", "", "user", "", "whole", *heads)
    for check in checks:
        rows.add_row(*_cells(check), *(_error(check, way) for way in ways))
    section(console, rows)
    console.print(
        "Percent of the base run time. bound, expected: by the estimate, of cheaper translation; "
        f"user, whole: by the trial, of user time and of all time. {_explained(heads)} less "
        "user, in points."
    )


def _cells(check: CheckedPrediction) -> tuple[str, ...]:
    predicted, gain = check.prediction, check.gain
    return (
        check.program.name,
        _bare(predicted.bound_fraction),
        _bare(predicted.expected_fraction.value),
        _ends(predicted.expected_fraction),
        _bare(gain.user.value),
        _ends(gain.user),
        _bare(gain.whole.value),
    )


def _explained(heads: Sequence[str]) -> str:
    if heads == ["error"]:
        return "error: expected"
    return f"{', '.join(heads)}: what the estimate had by that way,"


def _error(check: CheckedPrediction, way: Way | None) -> str:
    error = check.expected_error(way)
    return units.NOT_OBTAINED if error is None else points(error)


def _bare(fraction: float) -> str:
    """Percent without the sign, which would make the table too wide."""
    return f"{100 * fraction:.1f}"


def _ends(interval: Interval) -> str:
    """Whole percent, for the same reason."""
    return f"{round(100 * interval.low)}..{round(100 * interval.high)}"


def sentences(record: Record) -> Iterator[str]:
    """What the checks come to."""
    checks = record.checks
    if not checks:
        yield "No program was both predicted and measured on proven huge pages."
        return
    found = accuracy(checks)
    programs = f"{len(checks)} program" + ("s" if len(checks) > 1 else "")
    yield f"{programs}, errors in points of the base run time:"
    for name, errors in _kinds(record, found):
        yield (
            f"  {name}: mean {100 * errors.mean:.1f}, "
            f"largest {100 * errors.largest:.1f} ({errors.worst})"
        )
    if "measured" in found:
        yield from _measured(checks, found["measured"])
    above = [check.program.name for check in checks if check.above_bound]
    inside = [f"The gain lies in the expected interval in {_inside(found['expected'])}"]
    inside += [f"in {_of(way)} in {_inside(found[way])}" for way in record.ways]
    yield "; ".join(inside) + "."
    yield f"It exceeds the bound in {len(above)} of {len(checks)}" + (
        f": {', '.join(above)}." if above else "."
    )


def _of(way: Way) -> str:
    return "that measured by the estimate" if way == "measured" else f"that of the {way} model"


def _measured(checks: Sequence[CheckedPrediction], errors: Accuracy) -> Iterator[str]:
    """How well what estimates measured agrees with the trials."""
    error = max(check.gain.user_error for check in checks)
    yield (
        f"Measured by the estimate: root mean square {100 * errors.square:.1f}, of which "
        f"{100 * errors.beyond:.1f} are not explained by the standard errors of the trials, "
        f"{100 * error:.1f} at most."
    )
    nulls = [
        check.prediction.null_fraction
        for check in checks
        if check.prediction.null_fraction is not None
    ]
    if len(nulls) > 1:
        yield (
            f"Two on base pages differed by {100 * fmean(nulls):+.2f} points on average over "
            f"{len(nulls)} programs (standard deviation {100 * stdev(nulls):.1f}, largest "
            f"{100 * max(nulls, key=abs):+.1f})."
        )
    verdicts = [check.prediction.verdict for check in checks if check.prediction.verdict]
    if verdicts:
        yield f"Too close to call: {verdicts.count('not_proven')} of {len(verdicts)}."


def _inside(errors: Accuracy) -> str:
    return f"{errors.inside} of {errors.programs}"


def _kinds(record: Record, found: Mapping[Predicted, Accuracy]) -> Iterator[tuple[str, Accuracy]]:
    names: dict[Predicted, str] = {"expected": "expected gain against user time"}
    names |= {
        way: "... measured" if way == "measured" else f"... by the {way} model"
        for way in record.ways
    }
    names["bound"] = "bound against user time"
    names["total"] = "expected gain and page faults against all time"
    return ((name, found[predicted]) for predicted, name in names.items() if predicted in found)


def markdown(record: Record) -> str:
    """The tables of a machine's page in doc/accuracy/."""
    ways: tuple[Way | None, ...] = record.ways or (None,)
    heads = [_head(way) for way in ways]
    lines = [
        "| program | bound | expected gain | trial, user time | trial, all time "
        f"| page faults | {' | '.join(heads)} | of bound |",
        "| " + " | ".join(["---"] * (7 + len(heads))) + " |",
    ]
    for check in record.checks:
        said, gain = check.prediction, check.gain
        fault = "NA" if said.fault_fraction is None else units.percent(said.fault_fraction)
        errors = " | ".join(_error(check, way) for way in ways)
        lines.append(
            f"| {check.program.name} | {units.percent(said.bound_fraction)} | "
            f"{_with_range(said.expected_fraction)} | {_with_range(gain.user)} | "
            f"{_with_range(gain.whole)} | {fault} | {errors} | {points(check.bound_error)} |"
        )
    lines += ["", "| error, in points | mean | largest | of |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {name} | {100 * errors.mean:.1f} | {100 * errors.largest:.1f} | {errors.worst} |"
        for name, errors in _kinds(record, accuracy(record.checks))
    ]
    lines += ["", " ".join(line for line in sentences(record) if line.endswith("."))]
    lines += ["", *(f"- Not compared: {p.name}: {why}" for p, why in record.left_out)]
    machine = record.machine
    pairs = sorted({len(check.program.pairs) for check in record.checks})
    lines += [
        "",
        f"Machine: {machine.cpu_name or 'NA'}, hypervisor {machine.hypervisor or 'none'}, kernel "
        f"{machine.kernel or 'NA'}; {record.date[:10]}, tlbcost {record.version}. Pairs of runs of "
        f"each program: {', '.join(map(str, pairs)) or 'NA'}.",
    ]
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def _head(way: Way | None) -> str:
    if way is None:
        return "error of expected"
    return "error of measured" if way == "measured" else f"error of {way} model"


def _with_range(interval: Interval) -> str:
    return f"{units.percent(interval.value)} ({units.range_of(interval)})"
