# SPDX-License-Identifier: GPL-2.0-or-later
"""STREAM on base and on huge pages: its memory rates, and their report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TextIO

from tlbcost.accuracy.checks import (
    CheckedPrediction,
    PairedRun,
    TriedProgram,
    check_of,
    covered_fraction,
)
from tlbcost.accuracy.report import points
from tlbcost.common import paths, units
from tlbcost.common.console import print_whole, section, table
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.measured.method import drop_huge_page_requests
from tlbcost.settings.journal import Announce
from tlbcost.system import hints
from tlbcost.validation.session import (
    SuiteRequest,
    SuiteTask,
    check_rights,
    listener,
    predict_and_try,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ROW = re.compile(r"^(Copy|Scale|Add|Triad):\s+(\d+(?:\.\d+)?)\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rates:
    """MB/s of one function (10^6 bytes), medians over the runs; None: no run printed it."""

    function: str
    base: float | None
    huge: float | None


@dataclass(frozen=True, slots=True)
class StreamResult:
    """One variant of STREAM: `words` say which; `program` has its prediction and runs."""

    words: str
    program: TriedProgram
    rates: tuple[Rates, ...]


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """STREAM with arrays of `size` bytes, in its notation (None: 1G), and these options."""

    size: str | None = None
    options: tuple[str, ...] = ()
    pairs: int = 5


def rates_in(text: str) -> dict[str, float]:
    return {name: float(rate) for name, rate in _ROW.findall(text)}


def rates_heard(argv: Sequence[str], heard: Sequence[tuple[tuple[str, ...], str]]) -> list[Rates]:
    base = [rates_in(text) for command, text in heard if command == tuple(argv)]
    huge = [rates_in(text) for command, text in heard if command != tuple(argv)]

    def middle(runs: list[dict[str, float]], name: str) -> float | None:
        known = [rates[name] for rates in runs if name in rates]
        return median(known) if known else None

    return [
        Rates(name, middle(base, name), middle(huge, name))
        for name in ("Copy", "Scale", "Add", "Triad")
    ]


def variants(size: str | None, options: Sequence[str]) -> tuple[list[tuple[str, SuiteTask]], str]:
    """Both ways to give STREAM huge pages, in words and as tasks; and why one is missing, if so.

    `size`: bytes of the arrays, in STREAM's notation; None: the default, that of the static ones.

    Raises TlbcostError with exit code 4 if not even the first one is.
    """
    folder = paths.workloads()
    if not (folder / "stream").is_file():
        raise TlbcostError(
            f"STREAM is not built: no {folder / 'stream'}", hints.build("workloads"), CANNOT_MEASURE
        )
    sized = () if size is None else ("--size", size)
    found = [
        (
            "STREAM, arrays from malloc, hugectl --heap",
            SuiteTask("stream", (str(folder / "stream"), *sized, *options), "hugectl --heap"),
        )
    ]
    if size is not None:
        return found, "static arrays have a fixed size, and are left out with --size"
    if not (folder / "stream-static").is_file():
        return found, "no STREAM with static arrays: ld.hugetlbfs was not available to link it"
    static = SuiteTask(
        "stream-static", (str(folder / "stream-static"), *options), "hugectl --bss --data"
    )
    return [*found, ("STREAM, static arrays, hugectl --bss --data", static)], ""


def run_stream(request: StreamRequest, announce: Announce) -> Iterator[StreamResult]:
    """Predict and run each variant. Raises TlbcostError as `session.predict_and_try` does."""
    found, missing = variants(request.size, request.options)
    check_rights([task.method for _, task in found], "tlbcost validate --stream")
    if missing:
        announce(missing)
    drop_huge_page_requests(announce)
    asked = SuiteRequest(pairs=request.pairs, measured=False, turns=False)
    for words, task in found:
        with listener() as launcher:
            program = predict_and_try(launcher, task, asked, announce)
            rates = rates_heard(task.argv, launcher.heard)
        yield StreamResult(words, program, tuple(rates))


def print_stream(result: StreamResult, file: TextIO, *, details: bool) -> None:
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
