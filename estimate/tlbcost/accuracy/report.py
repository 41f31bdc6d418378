# SPDX-License-Identifier: GPL-2.0-or-later
"""A record of predictions and trials as text, as a figure, and in doc/accuracy/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, TextIO

from tlbcost.accuracy.record import Accuracy, CheckedPrediction, Predicted, Record, Way, accuracy
from tlbcost.common import units
from tlbcost.common.console import print_whole, section, table
from tlbcost.common.errors import TlbcostError
from tlbcost.common.gnuplot import draw_by, word_list
from tlbcost.common.units import Interval

if TYPE_CHECKING:
    from rich.console import Console

_MOST_CHECKS, _MOST_LEFT_OUT = 8, 2
_COLUMNS = ("number", "expected", "low", "high", "measured", "measured_low",
            "measured_high", "bound", "other")  # fmt: skip
# By whether any program was measured.
_OTHER = ("expected by the simple model", "expected by the model alone")
# Margin around the points, as a share of the range.
_MARGIN = 0.05


def points(fraction: float) -> str:
    """A difference of shares in percentage points: '+2.1'."""
    return f"{100 * fraction:+.1f}"


def print_record(record: Record, file: TextIO, *, details: bool) -> None:
    def fill(console: Console) -> None:
        for n, sentence in enumerate(sentences(record)):
            console.print(sentence, style="bold" if n == 0 else None)
        shown = record.checks if details else _worst(record)
        if shown:
            ways: tuple[Way | None, ...] = record.ways or (None,)
            heads = [way or "error" for way in ways]
            rows = table("program", "bound", "expected", "", "user", "", "whole", *heads)
            for check in shown:
                rows.add_row(*_cells(check), *(_error(check, way) for way in ways))
            section(console, rows)
            explained = f"{', '.join(heads)}: what the estimate had by that way,"
            if not record.ways:
                explained = "error: expected"
            console.print(
                "Percent of the base run time. bound, expected: by the estimate, of cheaper "
                "translation; user, whole: by the trial, of user time and of all time. "
                f"{explained} less user, in points."
            )
        if len(shown) < len(record.checks):
            console.print(f"The {len(shown)} largest errors of {len(record.checks)}: --details")
        for n, (program, why) in enumerate(record.left_out):
            if not details and n == _MOST_LEFT_OUT:
                console.print(f"Not compared: {len(record.left_out) - n} more")
                break
            console.print(f"Not compared: {program.name}: {why}")

    print_whole(fill, file)


def _worst(record: Record) -> Sequence[CheckedPrediction]:
    way = record.ways[0] if record.ways else None
    by_error = sorted(record.checks, key=lambda check: -abs(check.expected_error(way) or 0))
    return [check for check in record.checks if check in by_error[:_MOST_CHECKS]]


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


def _error(check: CheckedPrediction, way: Way | None) -> str:
    error = check.expected_error(way)
    return units.NOT_OBTAINED if error is None else points(error)


def _bare(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


def _ends(interval: Interval) -> str:
    """Whole percent, for the same reason."""
    return f"{round(100 * interval.low)}..{round(100 * interval.high)}"


def sentences(record: Record) -> Iterator[str]:
    checks = record.checks
    if not checks:
        yield "No program was both predicted and measured on proven huge pages."
        return
    found = accuracy(checks)
    programs = f"{len(checks)} program" + ("s" if len(checks) > 1 else "")
    yield f"{programs}, errors in points of the base run time:"
    names: dict[Predicted, str] = {"expected": "expected gain against user time"}
    names |= {way: f"... by the {way} model" for way in record.ways}
    if "measured" in names:
        names["measured"] = "... measured"
    names["bound"] = "bound against user time"
    names["total"] = "expected gain and page faults against all time"
    for predicted in [each for each in names if each in found]:
        errors = found[predicted]
        yield (
            f"  {names[predicted]}: mean {100 * errors.mean:.1f}, "
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


def draw_record(record: Record, picture: Path) -> None:
    checks = record.checks
    if not checks:
        raise TlbcostError(
            f"cannot draw {picture}: no program was both predicted and measured", None
        )
    # The largest gains first.
    checks = tuple(sorted(checks, key=lambda check: -check.gain.user.value))
    rows, ends = [], list[float]()
    for n, check in enumerate(checks, start=1):
        drawn = [
            100 * end
            for each in (check.prediction.expected_fraction, check.gain.user)
            for end in (each.value, each.low, each.high)
        ]
        # Bounds are many times as large: those beyond the axis are drawn at its end.
        ends += drawn
        rows.append((n, *drawn, 100 * check.prediction.bound_fraction, _other(check)))
    room = max(1.0, _MARGIN * (max(ends) - min(ends)))
    settings = {
        "title_words": f"{record.machine.cpu_name or 'NA'}: {len(checks)} programs",
        "other_words": _OTHER[any(check.prediction.of("measured") for check in checks)],
        "names": word_list(check.program.name for check in checks),
        "least": round(min(ends) - room),
        "most": round(max(ends) + room),
    }
    draw_by("accuracy.gp", picture, settings, {"checks": [_COLUMNS, *rows]})


def _other(check: CheckedPrediction) -> float | None:
    """The model's prediction where a measured gain was reported; else the simple model's."""
    said = check.prediction
    other = said.of("simple")
    if said.of("measured") is not None:
        other = said.of("overlap") or other
    if other is None or other == said.expected_fraction:
        return None
    return 100 * other.value
