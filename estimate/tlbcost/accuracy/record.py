# SPDX-License-Identifier: GPL-2.0-or-later
"""Predictions checked by trials, with their errors, and records of `tlbcost validate`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Annotated, Literal, cast

from tlbcost.calibration.file import cache_folder
from tlbcost.common import formats
from tlbcost.common.document import amount, doc
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import Cell, Table, count, format_table, number, read_table
from tlbcost.common.output import write_file
from tlbcost.common.paths import data
from tlbcost.common.sudo import as_calling_user
from tlbcost.common.units import Interval
from tlbcost.measured.record import MeasuredGain
from tlbcost.model.gain import MODELS, VERDICTS, ModelName, PredictedGain, VerdictCode
from tlbcost.system.machine import Machine, machine_of

# How an estimate came to a gain: measured, or by one of the models of a simulation.
Way = ModelName | Literal["measured"]
WAYS: tuple[Way, ...] = ("measured", *MODELS)
# Of a normal distribution, half of a 95 % interval.
_Z95 = 1.96
# "expected": the reported gain, by whichever way; "total": with page faults.
Predicted = Literal["expected", "bound", "total"] | Way


@dataclass(frozen=True, slots=True)
class Prediction:
    """What `tlbcost estimate` predicted; shares of the base run time. `fault_fraction` None: NA.

    `ways`: what it measured, and what a simulation's models predict, where known; one of them is
    the reported expected gain, unless that is from counters. `null_fraction`: what two runs on base
    pages differed by when it measured; `not_measured`: why it did not; None: not recorded.
    """

    bound_fraction: float
    expected_fraction: Interval
    fault_fraction: float | None
    ways: Mapping[Way, Interval] = field(default_factory=dict)
    null_fraction: float | None = None
    not_measured: str | None = None
    verdict: VerdictCode | None = None

    def of(self, way: Way | None) -> Interval | None:
        """The gain by one way; None: the reported one."""
        return self.expected_fraction if way is None else self.ways.get(way)

    @property
    def total_fraction(self) -> float | None:
        """Translation and page faults together."""
        if self.fault_fraction is None:
            return None
        return self.expected_fraction.value + self.fault_fraction


@dataclass(frozen=True, slots=True)
class PairedRun:
    """One run of a pair; times in ns."""

    wall_ns: int
    user_ns: int
    system_ns: int
    minor_faults: int
    max_rss_bytes: int

    @property
    def cpu_ns(self) -> int:
        """The time that shares refer to, as in `run.outcome.Run`."""
        return self.user_ns + self.system_ns


@dataclass(frozen=True, slots=True)
class PairOfRuns:
    """A run on base pages, one on huge pages, and the memory at the peak of the latter.

    `resident_bytes`, `huge_bytes` None: not sampled.
    """

    base: PairedRun
    huge: PairedRun
    resident_bytes: int | None
    huge_bytes: int | None


@dataclass(frozen=True, slots=True)
class TriedProgram:
    """One program of a record. `excluded`: why its runs, if any, do not measure huge pages.

    `in_turns`: the two runs of each pair took turns; None: not recorded.
    """

    name: str
    command: str
    method: str
    prediction: Prediction | None
    pairs: tuple[PairOfRuns, ...]
    excluded: str | None = None
    in_turns: bool | None = None


@dataclass(frozen=True, slots=True)
class Gain:
    """What huge pages saved: 1 - t_huge / t_base of CPU time, whole and its user and system parts.

    `bootstrap.median` of the pairs' differences, with 95 % intervals.
    """

    whole: Interval
    user: Interval
    system: Interval

    @property
    def user_error(self) -> float:
        return (self.user.high - self.user.low) / 2 / _Z95


@dataclass(frozen=True, slots=True)
class CheckedPrediction:
    """A prediction and the gain measured; errors are predicted less measured, shares of base time.

    Translation is compared with the user part; `total_error` is of the prediction with its page
    faults, and compared with the whole.
    """

    program: TriedProgram
    prediction: Prediction
    gain: Gain

    @property
    def bound_error(self) -> float:
        return self.prediction.bound_fraction - self.gain.user.value

    def expected_error(self, way: Way | None = None) -> float | None:
        """Of the expected gain, as in Prediction.of; None if there is none by that way."""
        expected = self.prediction.of(way)
        return None if expected is None else expected.value - self.gain.user.value

    @property
    def total_error(self) -> float | None:
        """Of expected gain and page faults together; None if the latter were not obtained."""
        total = self.prediction.total_fraction
        return None if total is None else total - self.gain.whole.value

    def inside(self, way: Way | None = None) -> bool:
        expected = self.prediction.of(way)
        return expected is not None and expected.low <= self.gain.user.value <= expected.high

    @property
    def above_bound(self) -> bool:
        """Whether the gain exceeds the bound, and not by chance: its whole interval does."""
        return self.gain.user.low > self.prediction.bound_fraction


@dataclass(frozen=True, slots=True)
class Record:
    """The programs that were run on one machine; see `checks` and `left_out`."""

    machine: Machine
    date: str
    version: str
    programs: tuple[TriedProgram, ...]

    @property
    def checks(self) -> tuple[CheckedPrediction, ...]:
        found = (check_of(program) for program in self.programs)
        return tuple(check for check in found if check is not None)

    @property
    def left_out(self) -> tuple[tuple[TriedProgram, str], ...]:
        return tuple((p, _why(p)) for p in self.programs if check_of(p) is None)

    @property
    def ways(self) -> tuple[Way, ...]:
        """Those with any known prediction; () in records from before there were two models."""
        return tuple(way for way in WAYS if any(way in c.prediction.ways for c in self.checks))


def prediction_of(gain: PredictedGain, measured: MeasuredGain | str | None = None) -> Prediction:
    ways: dict[Way, Interval] = dict(gain.models.items())
    fault, null, why = gain.fault_fraction, None, None
    if isinstance(measured, MeasuredGain):
        ways["measured"] = measured.user_fraction
        null = None if measured.null_fraction is None else measured.null_fraction.value
    else:
        why = measured
    bound, expected = gain.bound_fraction.value, gain.expected_fraction
    of_faults = None if fault is None else fault.value
    return Prediction(bound, expected, of_faults, ways, null, why, gain.verdict)


def gain_of(pairs: Sequence[PairOfRuns]) -> Gain | None:
    import numpy as np

    from tlbcost.common import bootstrap

    def share(values: Sequence[float]) -> Interval | None:
        return bootstrap.median(np.array(values, dtype=np.float64))

    whole = share([1 - p.huge.cpu_ns / p.base.cpu_ns for p in pairs])
    user = share([(p.base.user_ns - p.huge.user_ns) / p.base.cpu_ns for p in pairs])
    system = share([(p.base.system_ns - p.huge.system_ns) / p.base.cpu_ns for p in pairs])
    if whole is None or user is None or system is None:
        return None
    return Gain(whole, user, system)


def check_of(program: TriedProgram) -> CheckedPrediction | None:
    if program.excluded is not None or program.prediction is None:
        return None
    gain = gain_of(program.pairs)
    return None if gain is None else CheckedPrediction(program, program.prediction, gain)


def _why(program: TriedProgram) -> str:
    if program.excluded is not None:
        return program.excluded
    if program.prediction is None:
        return "not estimated"
    return f"{len(program.pairs)} pairs of runs are too few for an interval"


def covered_fraction(program: TriedProgram) -> float | None:
    shares = [
        pair.huge_bytes / pair.resident_bytes
        for pair in program.pairs
        if pair.huge_bytes is not None and pair.resident_bytes
    ]
    return median(shares) if shares else None


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Sizes of the errors of one figure over several programs, as shares of the run time.

    `inside`: programs whose measured gain was within the expected interval. `worst` names the
    program of the largest error. `square`: root mean square; `beyond`: of that, what the trials'
    own standard error does not explain.
    """

    programs: int
    inside: int
    mean: float
    largest: float
    worst: str
    square: float
    beyond: float


def accuracy(checks: Sequence[CheckedPrediction]) -> dict[Predicted, Accuracy]:
    # Not at the top: pandas takes a while to load.
    import pandas as pd

    rows = []
    for check in checks:
        name, trial = check.program.name, check.gain.user_error
        errors: dict[Predicted, float | None] = {
            "expected": check.expected_error(),
            "bound": check.bound_error,
            "total": check.total_error,
        }
        errors |= {way: check.expected_error(way) for way in WAYS}
        for predicted, error in errors.items():
            if error is not None:
                way = next((way for way in WAYS if way == predicted), None)
                rows.append((predicted, name, abs(error), check.inside(way), trial))
    table = pd.DataFrame(rows, columns=["predicted", "program", "size", "inside", "trial"])
    found: dict[Predicted, Accuracy] = {}
    for of, group in table.groupby("predicted", sort=False):
        worst = group.sort_values("size", ascending=False, kind="stable").iloc[0]
        square = float((group["size"] ** 2).mean())
        explained = float((group["trial"] ** 2).mean())
        found[cast(Predicted, of)] = Accuracy(
            programs=len(group),
            inside=int(group["inside"].sum()),
            mean=float(group["size"].mean()),
            largest=float(worst["size"]),
            worst=str(worst["program"]),
            square=math.sqrt(square),
            beyond=math.sqrt(max(0.0, square - explained)),
        )
    return found


RECORD = "trials.tsv"
_ENDS = ("low", "value", "high")
_YES_OR_NO = {"yes": True, "no": False}
# What machines must share for a record of one to apply to the other; kernels and microcode change.
_SAME = ("cpu_vendor", "cpu_family", "cpu_model", "cpu_stepping", "hypervisor", "base_page_bytes")


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """How far predictions were off where `tlbcost validate` ran these programs.

    `here`: on this machine, not on another one with the same CPU. Errors are absolute, as shares of
    the run time; `inside`: programs whose measured gain was within the expected interval.
    """

    here: Annotated[bool, doc("on this machine; false: on another one with the same CPU")]
    date: Annotated[str, doc("date of the record")]
    programs: Annotated[int, doc("how many were run", minimum=1)]
    inside: Annotated[int, amount("programs whose measured gain was within the expected interval")]
    mean_error_fraction: Annotated[float, amount("absolute error, on average")]
    largest_error_fraction: Annotated[float, amount("largest absolute error")]
    by_copies: Annotated[
        bool, doc("the models were those of copies; false: of a simulation in Valgrind")
    ] = False


def format_record(record: Record) -> str:
    header: dict[str, Cell] = asdict(record.machine)
    header |= {"date": record.date, "version": record.version}
    rows: list[Sequence[Cell]] = []
    for n, program in enumerate(record.programs):
        header[f"program_{n}"] = program.command
        header[f"name_{n}"] = program.name
        header[f"method_{n}"] = program.method
        said = program.prediction
        header[f"bound_fraction_{n}"] = None if said is None else said.bound_fraction
        found = {"expected": None if said is None else said.expected_fraction}
        for way in WAYS:
            found[f"expected_{way}"] = None if said is None else said.of(way)
        for prefix, expected in found.items():
            for end in _ENDS:
                header[f"{prefix}_{end}_{n}"] = None if expected is None else getattr(expected, end)
        header[f"fault_value_{n}"] = None if said is None else said.fault_fraction
        # What has no key where it is None.
        known: dict[str, Cell] = {"excluded": program.excluded}
        if program.in_turns is not None:
            known["in_turns"] = "yes" if program.in_turns else "no"
        for key in ("null_fraction", "not_measured", "verdict"):
            known[key] = getattr(said, key, None)
        header |= {f"{key}_{n}": cell for key, cell in known.items() if cell is not None}
        for i, pair in enumerate(program.pairs):
            runs = *astuple(pair.base), *astuple(pair.huge)
            rows.append((n, program.method, i, *runs, pair.resident_bytes, pair.huge_bytes))
    return format_table(formats.TRIALS, header, rows)


def read_record(path: Path) -> Record:
    table = read_table(path, formats.TRIALS)
    try:
        numbers = [key.removeprefix("program_") for key in table.header if key[:8] == "program_"]
        programs = tuple(_program(table, n) for n in numbers)
        machine = machine_of(table.header)
        return Record(machine, table.key("date"), table.key("version"), programs)
    except (KeyError, ValueError, ZeroDivisionError) as error:
        raise TlbcostError(f"{path}: not a record of trials: {error}") from error


def _program(table: Table, n: str) -> TriedProgram:
    rows = [row for row in table.records() if row["program"] == n]
    method = table.header.get(f"method_{n}") or (rows[0]["method"] if rows else None) or "NA"
    command = table.key(f"program_{n}")
    # A table of several methods holds as many trials of one program; a check is of one of them.
    pairs = tuple(_pair(row) for row in rows if row["method"] == method)
    name = table.header.get(f"name_{n}") or Path(command.split(" ")[0]).name
    excluded, turns = (table.header.get(f"{key}_{n}") for key in ("excluded", "in_turns"))
    in_turns = _YES_OR_NO.get(turns or "")
    said = _prediction(table.header, n)
    return TriedProgram(name, command, method, said, pairs, excluded, in_turns)


def _prediction(header: Mapping[str, str], n: str) -> Prediction | None:
    def figure(key: str) -> float | None:
        cell = header.get(f"{key}_{n}", "NA")
        return number(None if cell == "NA" else cell)

    def interval(prefix: str) -> Interval | None:
        low, value, high = (figure(f"{prefix}_{end}") for end in _ENDS)
        if low is None or value is None or high is None:
            return None
        return Interval(value, low, high)

    bound, expected = figure("bound_fraction"), interval("expected")
    if bound is None or expected is None:
        return None
    ways: dict[Way, Interval] = {
        way: found for way in WAYS if (found := interval(f"expected_{way}"))
    }
    verdict = next((code for code in VERDICTS if code == header.get(f"verdict_{n}")), None)
    null, why = figure("null_fraction"), header.get(f"not_measured_{n}")
    return Prediction(bound, expected, figure("fault_value"), ways, null, why, verdict)


def _pair(row: Mapping[str, str | None]) -> PairOfRuns:
    def half(which: str) -> PairedRun:
        cells = [count(row[f"{which}_{field.name}"]) for field in fields(PairedRun)]
        known = [cell for cell in cells if cell is not None]
        if len(known) != len(cells) or not known[0]:
            raise ValueError(f"a run without times ({which} pages)")
        return PairedRun(*known)

    return PairOfRuns(
        half("base"), half("huge"), count(row["resident_bytes"]), count(row["huge_bytes"])
    )


def save_record(record: Record) -> str:
    """Keep it for estimates to quote, replacing an earlier one; returns why if that fails."""
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


def record_of(machine: Machine) -> tuple[Record, bool] | None:
    """The record of this machine, or else of one with the same CPU; None without one.

    The user's own record is in the cache, with the calibrations: then the second value is True.
    tlbcost comes with some of other machines.
    """
    own = cache_folder() / RECORD
    for file in (own, *sorted(data("samples").glob(f"*/{RECORD}"))):
        try:
            record = read_record(file)
        except TlbcostError:
            continue
        same = all(getattr(record.machine, key) == getattr(machine, key) for key in _SAME)
        if same and record.checks:
            return record, file == own
    return None


def track_records(machine: Machine) -> dict[Way, TrackRecord]:
    """How far off estimates were here, by each way, or else on another machine with this CPU."""
    found = record_of(machine)
    return {} if found is None else _tracks(*found)


def shipped_track_records() -> dict[str, dict[Way, TrackRecord]]:
    """The same for each machine whose record is shipped with tlbcost, by the record's name."""
    found = {}
    for file in sorted(data("samples").glob(f"*/{RECORD}")):
        with contextlib.suppress(TlbcostError):
            found[file.parent.name] = _tracks(read_record(file), here=False)
    return found


def _tracks(record: Record, here: bool) -> dict[Way, TrackRecord]:
    by_model = accuracy(record.checks)
    if not any(model in by_model for model in MODELS):
        # From before there were two models.
        by_model["simple"] = by_model["expected"]
    # Since there are turns, the models are those of copies.
    by_copies = any(program.in_turns is not None for program in record.programs)
    return {
        way: TrackRecord(
            here, record.date, each.programs, each.inside, each.mean, each.largest, by_copies
        )
        for way in WAYS
        if (each := by_model.get(way)) is not None
    }
