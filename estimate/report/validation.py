# SPDX-License-Identifier: GPL-2.0-or-later
"""How does a record of predictions and trials look: as text, and in doc/accuracy.md?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from tlbcost import units
from tlbcost.records import Interval
from tlbcost.report.tables import print_whole, section, table
from tlbcost.report.words import range_of
from tlbcost.validation import Check, Errors, Record

if TYPE_CHECKING:
    from rich.console import Console


def points(fraction: float) -> str:
    """A difference of shares in percentage points: '+2.1'."""
    return f"{100 * fraction:+.1f}"


def percents(interval: Interval) -> str:
    """'12 % to 38 %'; one figure where both ends read alike."""
    return range_of(interval)


def print_record(record: Record, file: TextIO) -> None:
    """Print the table of the checks and what they come to."""

    def fill(console: Console) -> None:
        if record.checks:
            rows = table("program", "bound", "expected", "", "user", "", "whole", "error")
            for check in record.checks:
                rows.add_row(*_cells(check))
            section(console, rows)
            console.print()
            console.print(
                "Percent of the base run time. bound, expected: predicted of cheaper translation; "
                "user, whole: measured of user time and of all time. error: expected less user, in "
                "points."
            )
        console.print()
        for sentence in sentences(record):
            console.print(sentence)
        for program, why in record.left_out:
            console.print(f"Not compared: {program.name}: {why}")

    print_whole(fill, file)


def _cells(check: Check) -> tuple[str, ...]:
    predicted, gain = check.prediction, check.gain
    return (
        check.program.name,
        _bare(predicted.bound_fraction),
        _bare(predicted.expected_fraction.value),
        _ends(predicted.expected_fraction),
        _bare(gain.user.value),
        _ends(gain.user),
        _bare(gain.whole.value),
        points(check.expected_error),
    )


def _bare(fraction: float) -> str:
    """Percent without the sign, which would make the table too wide."""
    return f"{100 * fraction:.1f}"


def _ends(interval: Interval) -> str:
    return f"{_bare(interval.low)}..{_bare(interval.high)}"


def sentences(record: Record) -> Iterator[str]:
    """What the checks come to."""
    checks = record.checks
    if not checks:
        yield "No program was both predicted and measured on proven huge pages."
        return
    programs = f"{len(checks)} program" + ("s" if len(checks) > 1 else "")
    yield f"{programs}, errors in points of the base run time:"
    for name, errors in _kinds(record):
        yield (
            f"  {name}: mean {100 * errors.mean:.1f}, "
            f"largest {100 * errors.largest:.1f} ({errors.worst})"
        )
    inside = sum(check.inside for check in checks)
    above = [check.program.name for check in checks if check.above_bound]
    yield f"The gain lies in the expected interval in {inside} of {len(checks)}."
    yield f"It exceeds the bound in {len(above)} of {len(checks)}" + (
        f": {', '.join(above)}." if above else "."
    )


def _kinds(record: Record) -> Iterator[tuple[str, Errors]]:
    for name, errors in (
        ("expected gain against user time", record.expected),
        ("bound against user time", record.bound),
        ("expected gain and page faults against all time", record.total),
    ):
        if errors is not None:
            yield name, errors


def markdown(record: Record) -> str:
    """The section of doc/accuracy.md, without its marks."""
    lines = [
        "| program | bound | expected gain | measured, user time | measured, all time "
        "| page faults predicted | error of expected | of bound |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for check in record.checks:
        said, gain = check.prediction, check.gain
        fault = "NA" if said.fault_fraction is None else units.percent(said.fault_fraction)
        lines.append(
            f"| {check.program.name} | {units.percent(said.bound_fraction)} | "
            f"{_with_range(said.expected_fraction)} | {_with_range(gain.user)} | "
            f"{_with_range(gain.whole)} | {fault} | {points(check.expected_error)} | "
            f"{points(check.bound_error)} |"
        )
    lines += ["", "| error, in points | mean | largest | of |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {name} | {100 * errors.mean:.1f} | {100 * errors.largest:.1f} | {errors.worst} |"
        for name, errors in _kinds(record)
    ]
    lines += ["", " ".join(list(sentences(record))[-2:])]
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


def _with_range(interval: Interval) -> str:
    return f"{units.percent(interval.value)} ({percents(interval)})"
