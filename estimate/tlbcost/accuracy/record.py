# SPDX-License-Identifier: GPL-2.0-or-later
"""Records of `tlbcost validate`: a `trials` table (doc/format.md), and its places."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from tlbcost.accuracy.checks import (
    WAYS,
    PairedRun,
    PairOfRuns,
    Prediction,
    Record,
    TriedProgram,
    Way,
    accuracy,
)
from tlbcost.calibration.file import cache_folder, machine_of
from tlbcost.common import formats
from tlbcost.common.document import doc
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import Cell, Table, count, format_table, number, read_table
from tlbcost.common.interval import Interval
from tlbcost.common.output import write_file
from tlbcost.common.paths import data
from tlbcost.common.sudo import as_calling_user
from tlbcost.model.gain import MODELS, VERDICTS
from tlbcost.system.machine import Machine

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
    inside: Annotated[
        int, doc("programs whose measured gain was within the expected interval", minimum=0)
    ]
    mean_error_fraction: Annotated[float, doc("absolute error, on average", minimum=0)]
    largest_error_fraction: Annotated[float, doc("largest absolute error", minimum=0)]
    by_copies: Annotated[
        bool, doc("the models were those of copies; false: of a simulation in Valgrind")
    ] = False


def format_record(record: Record) -> str:
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
        header[f"bound_fraction_{n}"] = None if said is None else said.bound_fraction
        found = {"expected": None if said is None else said.expected_fraction}
        for way in WAYS:
            found[f"expected_{way}"] = None if said is None else said.of(way)
        for prefix, expected in found.items():
            for end in _ENDS:
                header[f"{prefix}_{end}_{n}"] = None if expected is None else getattr(expected, end)
        header[f"fault_value_{n}"] = None if said is None else said.fault_fraction
        header |= {
            f"{key}_{n}": cell for key, cell in _if_known(program, said).items() if cell is not None
        }
        for i, pair in enumerate(program.pairs):
            rows.append(
                (n, program.method, i, *_cells(pair.base), *_cells(pair.huge),
                 pair.resident_bytes, pair.huge_bytes)
            )  # fmt: skip
    return format_table(formats.TRIALS, header, rows)


def _if_known(program: TriedProgram, said: Prediction | None) -> dict[str, Cell]:
    """What has no key where it is None."""
    found: dict[str, Cell] = {"excluded": program.excluded}
    if program.in_turns is not None:
        found["in_turns"] = "yes" if program.in_turns else "no"
    if said is not None:
        found |= {
            "null_fraction": said.null_fraction,
            "not_measured": said.not_measured,
            "verdict": said.verdict,
        }
    return found


def _cells(run: PairedRun) -> tuple[int, ...]:
    return tuple(getattr(run, field.name) for field in fields(PairedRun))


def read_record(path: Path) -> Record:
    table = read_table(path, formats.TRIALS)
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


def _program(table: Table, n: str) -> TriedProgram:
    rows = [row for row in table.records() if row["program"] == n]
    method = table.header.get(f"method_{n}") or (rows[0]["method"] if rows else None) or "NA"
    command = table.key(f"program_{n}")
    # A table of several methods holds as many trials of one program; a check is of one of them.
    pairs = tuple(_pair(row) for row in rows if row["method"] == method)
    return TriedProgram(
        table.header.get(f"name_{n}") or Path(command.split(" ")[0]).name,
        command,
        method,
        _prediction(table.header, n),
        pairs,
        table.header.get(f"excluded_{n}"),
        _YES_OR_NO.get(table.header.get(f"in_turns_{n}", "")),
    )


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
    return Prediction(
        bound,
        expected,
        figure("fault_value"),
        {way: found for way in WAYS if (found := interval(f"expected_{way}"))},
        figure("null_fraction"),
        header.get(f"not_measured_{n}"),
        next((code for code in VERDICTS if code == header.get(f"verdict_{n}")), None),
    )


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
