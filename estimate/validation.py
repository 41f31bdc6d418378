# SPDX-License-Identifier: GPL-2.0-or-later
"""How far were estimates from what huge pages gave? Predictions and trials, and their record.

A record is a `trials` table (doc/format.md); what is said of it is worked out from its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tlbcost import kinds
from tlbcost.calibration import as_calling_user, cache_folder
from tlbcost.calibration_file import machine_of
from tlbcost.errors import TlbcostError
from tlbcost.model import Estimate
from tlbcost.paths import data
from tlbcost.records import Interval, Machine
from tlbcost.stats import median
from tlbcost.table import Cell, Table, count, format_table, number, read_table, write_file

RECORD = "trials.tsv"
# What machines must share for a record of one to speak for the other; kernels and microcode come
# and go.
_SAME = ("cpu_vendor", "cpu_family", "cpu_model", "cpu_stepping", "hypervisor", "base_page_bytes")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What `tlbcost estimate` said; shares of the base run time. `fault_fraction` None: NA."""

    bound_fraction: float
    expected_fraction: Interval
    fault_fraction: float | None

    @property
    def total_fraction(self) -> float | None:
        """Translation and page faults together."""
        if self.fault_fraction is None:
            return None
        return self.expected_fraction.value + self.fault_fraction


@dataclass(frozen=True, slots=True)
class Half:
    """One run of a pair; times in ns."""

    wall_ns: int
    user_ns: int
    system_ns: int
    minor_faults: int
    max_rss_bytes: int

    @property
    def run_time_ns(self) -> int:
        """The time that shares refer to, as in `model.run_time_ns`."""
        return max(self.wall_ns, self.user_ns + self.system_ns)


@dataclass(frozen=True, slots=True)
class PairOfRuns:
    """A run on base pages, one on huge pages, and the memory at the peak of the latter.

    `resident_bytes`, `huge_bytes` None: not sampled.
    """

    base: Half
    huge: Half
    resident_bytes: int | None
    huge_bytes: int | None


@dataclass(frozen=True, slots=True)
class Program:
    """One program of a record. `excluded`: why its runs, if any, measure no huge pages."""

    name: str
    command: str
    method: str
    prediction: Prediction | None
    pairs: tuple[PairOfRuns, ...]
    excluded: str | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """What huge pages gave: 1 - t_huge / t_base, whole and its user and system parts.

    `bootstrap.median` of the pairs' differences, with 95 % intervals.
    """

    whole: Interval
    user: Interval
    system: Interval


@dataclass(frozen=True, slots=True)
class Check:
    """A prediction beside the gain; errors are predicted less measured, shares of base time.

    Translation is compared with the user part; `total_error` is of the prediction with its page
    faults, and compared with the whole.
    """

    program: Program
    prediction: Prediction
    gain: Gain

    @property
    def bound_error(self) -> float:
        """Of the bound."""
        return self.prediction.bound_fraction - self.gain.user.value

    @property
    def expected_error(self) -> float:
        """Of the expected gain."""
        return self.prediction.expected_fraction.value - self.gain.user.value

    @property
    def total_error(self) -> float | None:
        """Of expected gain and page faults together; None if the latter were not obtained."""
        total = self.prediction.total_fraction
        return None if total is None else total - self.gain.whole.value

    @property
    def inside(self) -> bool:
        """Whether the gain lies in the expected interval."""
        expected = self.prediction.expected_fraction
        return expected.low <= self.gain.user.value <= expected.high

    @property
    def above_bound(self) -> bool:
        """Whether the gain exceeds the bound, and not by chance: its whole interval does."""
        return self.gain.user.low > self.prediction.bound_fraction


@dataclass(frozen=True, slots=True)
class Errors:
    """Sizes of the errors of several checks; `worst` names the program of the largest."""

    mean: float
    largest: float
    worst: str


@dataclass(frozen=True, slots=True)
class Record:
    """The programs that were tried on one machine; see `checks` and `left_out`."""

    machine: Machine
    date: str
    version: str
    programs: tuple[Program, ...]

    @property
    def checks(self) -> tuple[Check, ...]:
        """Those that were predicted and measured."""
        found = (check_of(program) for program in self.programs)
        return tuple(check for check in found if check is not None)

    @property
    def left_out(self) -> tuple[tuple[Program, str], ...]:
        """The others, each with the reason."""
        return tuple((p, _why(p)) for p in self.programs if check_of(p) is None)

    @property
    def expected(self) -> Errors | None:
        """Errors of the expected gain."""
        return errors([(c.program.name, c.expected_error) for c in self.checks])

    @property
    def bound(self) -> Errors | None:
        """Errors of the bound."""
        return errors([(c.program.name, c.bound_error) for c in self.checks])

    @property
    def total(self) -> Errors | None:
        """Errors of expected gain and page faults together."""
        known = [(c.program.name, c.total_error) for c in self.checks]
        return errors([(name, error) for name, error in known if error is not None])


def errors(named: Sequence[tuple[str, float]]) -> Errors | None:
    """Mean and largest size of errors; None if there are none."""
    if not named:
        return None
    worst, largest = max(((name, abs(error)) for name, error in named), key=lambda e: e[1])
    return Errors(sum(abs(error) for _, error in named) / len(named), largest, worst)


def prediction_of(estimate: Estimate) -> Prediction:
    """What an estimate says, for a record."""
    fault = estimate.fault_fraction
    return Prediction(
        estimate.bound_fraction.value,
        estimate.expected_fraction,
        None if fault is None else fault.value,
    )


def gain_of(pairs: Sequence[PairOfRuns]) -> Gain | None:
    """What the pairs show; None if they are too few for an interval."""
    import numpy as np
    from tlbcost import bootstrap

    def share(values: Sequence[float]) -> Interval | None:
        return bootstrap.median(np.array(values, dtype=np.float64))

    whole = share([1 - p.huge.wall_ns / p.base.wall_ns for p in pairs])
    user = share([(p.base.user_ns - p.huge.user_ns) / p.base.run_time_ns for p in pairs])
    system = share([(p.base.system_ns - p.huge.system_ns) / p.base.run_time_ns for p in pairs])
    if whole is None or user is None or system is None:
        return None
    return Gain(whole, user, system)


def check_of(program: Program) -> Check | None:
    """The check of a program; None if it was not predicted, not measured, or is excluded."""
    if program.excluded is not None or program.prediction is None:
        return None
    gain = gain_of(program.pairs)
    return None if gain is None else Check(program, program.prediction, gain)


def _why(program: Program) -> str:
    if program.excluded is not None:
        return program.excluded
    if program.prediction is None:
        return "not estimated"
    return f"{len(program.pairs)} pairs of runs tell no interval"


def covered_fraction(program: Program) -> float | None:
    """The share of the memory that was on huge pages, median over the runs; None: not sampled."""
    shares = [
        pair.huge_bytes / pair.resident_bytes
        for pair in program.pairs
        if pair.huge_bytes is not None and pair.resident_bytes
    ]
    return median(shares) if shares else None


def format_record(record: Record) -> str:
    """The text of the record's table."""
    header: dict[str, Cell] = {
        field.name: getattr(record.machine, field.name) for field in fields(Machine)
    }
    header |= {"date": record.date, "version": record.version}
    rows: list[Sequence[Cell]] = []
    for n, program in enumerate(record.programs):
        header[f"program_{n}"] = program.command
        header[f"name_{n}"] = program.name
        header[f"method_{n}"] = program.method
        said = program.prediction
        expected = None if said is None else said.expected_fraction
        header[f"bound_fraction_{n}"] = None if said is None else said.bound_fraction
        for end in ("low", "value", "high"):
            header[f"expected_{end}_{n}"] = None if expected is None else getattr(expected, end)
        header[f"fault_value_{n}"] = None if said is None else said.fault_fraction
        if program.excluded is not None:
            header[f"excluded_{n}"] = program.excluded
        for i, pair in enumerate(program.pairs):
            rows.append(
                (n, program.method, i, *_cells(pair.base), *_cells(pair.huge),
                 pair.resident_bytes, pair.huge_bytes)
            )  # fmt: skip
    return format_table(kinds.TRIALS, header, rows)


def _cells(half: Half) -> tuple[int, ...]:
    return tuple(getattr(half, field.name) for field in fields(Half))


def read_record(path: Path) -> Record:
    """Read a record. Raises TlbcostError naming the file and its defect."""
    table = read_table(path, kinds.TRIALS)
    try:
        numbers = [key.removeprefix("program_") for key in table.header if key[:8] == "program_"]
        return Record(
            machine_of(table.header),
            table.key("date"),
            table.key("version"),
            tuple(_program(table, n) for n in numbers),
        )
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise TlbcostError(f"{path}: not a record of trials: {error}") from error


def _program(table: Table, n: str) -> Program:
    rows = [row for row in table.records() if row["program"] == n]
    method = table.header.get(f"method_{n}") or (rows[0]["method"] if rows else None) or "NA"
    command = table.key(f"program_{n}")
    # A table of several methods holds as many trials of one program; a check is of one of them.
    pairs = tuple(_pair(row) for row in rows if row["method"] == method)
    return Program(
        table.header.get(f"name_{n}") or Path(command.split(" ")[0]).name,
        command,
        method,
        _prediction(table.header, n),
        pairs,
        table.header.get(f"excluded_{n}"),
    )


def _prediction(header: Mapping[str, str], n: str) -> Prediction | None:
    def figure(key: str) -> float | None:
        cell = header.get(f"{key}_{n}", "NA")
        return number(None if cell == "NA" else cell)

    bound, low = figure("bound_fraction"), figure("expected_low")
    value, high = figure("expected_value"), figure("expected_high")
    if bound is None or low is None or value is None or high is None:
        return None
    return Prediction(bound, Interval(value, low, high), figure("fault_value"))


def _pair(row: Mapping[str, str | None]) -> PairOfRuns:
    def half(which: str) -> Half:
        cells = [count(row[f"{which}_{field.name}"]) for field in fields(Half)]
        known = [cell for cell in cells if cell is not None]
        if len(known) != len(cells) or not known[0]:
            raise ValueError(f"a run without its times ({which} pages)")
        return Half(*known)

    return PairOfRuns(
        half("base"), half("huge"), count(row["resident_bytes"]), count(row["huge_bytes"])
    )


def save_record(record: Record) -> str:
    """Keep it for estimates to quote, in place of an earlier one; if that fails, why."""
    path = cache_folder() / RECORD
    if not record.checks:
        return "the record is not kept: nothing in it was both predicted and measured"
    try:
        with as_calling_user():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, format_record(record))
    except OSError as error:
        return f"the record could not be kept: {path}: {error.strerror}"
    return ""


def record_of(machine: Machine) -> Record | None:
    """What was found on this machine or one of the same CPU; None if nothing was.

    The user's own are in the cache, beside the calibrations; tlbcost brings some along.
    """
    files = [cache_folder() / RECORD, *sorted(data("samples").glob(f"*/{RECORD}"))]
    for file in files:
        try:
            record = read_record(file)
        except TlbcostError:
            continue
        same = all(getattr(record.machine, key) == getattr(machine, key) for key in _SAME)
        if same and record.checks:
            return record
    return None
