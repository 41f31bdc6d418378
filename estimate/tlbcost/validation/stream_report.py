# SPDX-License-Identifier: GPL-2.0-or-later
"""How does STREAM on base and on huge pages look: the table of the article, and the error."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, TextIO

from tlbcost.accuracy.checks import CheckedPrediction, PairedRun, check_of, covered_fraction
from tlbcost.accuracy.report import points
from tlbcost.common import units
from tlbcost.common.console import print_whole, section, table
from tlbcost.common.interval import Interval
from tlbcost.validation.stream import StreamResult

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_stream(result: StreamResult, file: TextIO, *, details: bool) -> None:
    """Print predicted against measured, then rates; with `details`, times and faults, too."""

    def fill(console: Console) -> None:
        program = result.program
        if program.excluded is not None:
            console.print(f"{result.words}: no result: {program.excluded}")
            return
        covered = covered_fraction(program)
        share = units.NOT_OBTAINED if covered is None else units.percent(covered)
        console.print(
            f"{result.words}: {len(program.pairs)} pairs of runs; {share} of the memory was on "
            "huge pages"
        )
        check = check_of(program)
        if check is None:
            console.print("Too few runs, or no prediction, to compare with.")
        else:
            section(console, _comparison(check))
        rows = table("", "base pages", "huge pages", "difference")
        for rate in result.rates:
            rows.add_row(f"{rate.function} (MB/s)", *_compared(rate.base, rate.huge, _rate))
        for name, of, shown in _LINES if details else ():
            base = median([of(pair.base) for pair in program.pairs])
            huge = median([of(pair.huge) for pair in program.pairs])
            rows.add_row(name, *_compared(base, huge, shown))
        section(console, rows)
        if details:
            console.print(
                "Shares of the base run time; errors in points. Rates are no times: what they "
                "gain is not what the run gains."
            )

    print_whole(fill, file)


def _rate(value: float) -> str:
    return f"{value:,.0f}"


def _count(value: float) -> str:
    return units.count(round(value))


_LINES: tuple[tuple[str, Callable[[PairedRun], int], Callable[[float], str]], ...] = (
    ("elapsed", lambda run: run.wall_ns, units.time),
    ("user", lambda run: run.user_ns, units.time),
    ("system", lambda run: run.system_ns, units.time),
    ("minor faults", lambda run: run.minor_faults, _count),
)


def _compared(
    base: float | None, huge: float | None, shown: Callable[[float], str]
) -> tuple[str, str, str]:
    def cell(value: float | None) -> str:
        return units.NOT_OBTAINED if value is None else shown(value)

    if base is None or huge is None or base <= 0:
        return cell(base), cell(huge), units.NOT_OBTAINED
    return cell(base), cell(huge), f"{100 * (huge / base - 1):+.1f} %"


def _comparison(check: CheckedPrediction) -> Table:
    said, gain = check.prediction, check.gain
    fault, total = said.fault_fraction, said.total_fraction
    rows = table("", "predicted", "", "measured", "", "error")

    def row(name: str, value: float | None, ends: Interval | None, found: Interval) -> None:
        rows.add_row(
            name,
            units.NOT_OBTAINED if value is None else units.percent(value),
            units.range_of(ends) if ends else "",
            units.percent(found.value),
            units.range_of(found),
            units.NOT_OBTAINED if value is None else points(value - found.value),
        )

    row("bound (user time)", said.bound_fraction, None, gain.user)
    row("expected (user time)", said.expected_fraction.value, said.expected_fraction, gain.user)
    row("page faults (system time)", fault, None, gain.system)
    row("both (elapsed)", total, None, gain.whole)
    return rows
