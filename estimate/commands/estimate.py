# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost estimate: what would huge pages give this program?"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.cleanup import Stopped, signals_raise, temporary_folder
from tlbcost.errors import CANNOT_MEASURE, SIGNAL_BASE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.progress import Progress
from tlbcost.records import Calibration, Geometry, Machine

if TYPE_CHECKING:
    from tlbcost.calibration import Obtained
    from tlbcost.launch import Outcome
    from tlbcost.report.content import Content
    from tlbcost.simulate import Simulation

_MOST_RUNS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost estimate [options] [--] COMMAND [ARG...]"
    parser.epilog = (
        "COMMAND keeps its own standard input, output and error. Exit codes: 0 done, 2 usage, "
        "4 this machine cannot measure it, 125 tlbcost failed, 126 or 127 COMMAND could not be "
        "started; a COMMAND that fails gives its own code, or 128 + its signal."
    )
    parser.add_argument(
        "--calibration", metavar="FILE", type=Path, help="use the costs in this calibration table"
    )
    parser.add_argument(
        "--ignore-failure", action="store_true", help="estimate a COMMAND that fails, too"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write the report for programs to this file"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the report to this file, not stderr"
    )
    parser.add_argument(
        "--prepare", metavar="CMD", help="run this shell command before each run of COMMAND"
    )
    parser.add_argument(
        "--recalibrate", action="store_true", help="measure this machine's costs again first"
    )
    parser.add_argument(
        "--runs", metavar="N", type=_runs, default=3, help="time COMMAND N times (default: 3)"
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Estimate; returns 0, raises TlbcostError."""
    try:
        with signals_raise():
            _estimate(arguments)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number
    return 0


def _runs(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MOST_RUNS:
        raise argparse.ArgumentTypeError(f"not a number from 1 to {_MOST_RUNS}: {text}")
    return int(text)


def _estimate(arguments: argparse.Namespace) -> None:
    from tlbcost.machine import current_machine
    from tlbcost.program import check_simulatable, resolve
    from tlbcost.report.output import check_writable
    from tlbcost.simulate import find_valgrind

    argv: list[str] = arguments.program
    if argv[:1] == ["--"]:
        argv = argv[1:]
    if not argv:
        raise TlbcostError("no program to estimate", "tlbcost estimate -- ./app ARG...", USAGE)
    # Whatever can be refused is refused before anything takes time.
    for file in (arguments.json, arguments.output):
        if file is not None:
            check_writable(file, TOOL_FAILED)
    path = resolve(argv[0])
    check_simulatable(path)
    valgrind = find_valgrind()
    machine = current_machine()
    calibrated = _calibration(arguments)
    geometry, notes = _geometry(calibrated.calibration, machine)
    _check_costs(calibrated.calibration, machine)
    native, simulation = _run_program(arguments, argv, path, valgrind, geometry)
    content = assemble(
        argv, path, machine, calibrated, (*calibrated.notes, *notes), geometry, native, simulation
    )
    _print(content, arguments)


def _run_program(
    arguments: argparse.Namespace, argv: list[str], path: Path, valgrind: Path, geometry: Geometry
) -> tuple[list[Outcome], Simulation]:
    """Time the program natively, then count its misses."""
    from tlbcost.launch import Launcher, native_runs
    from tlbcost.simulate import simulate
    from tlbcost.stdin import ProgramInput
    from tlbcost.user import calling_user

    with temporary_folder() as folder, contextlib.closing(ProgramInput()) as stdin:
        launcher = Launcher(folder, stdin, calling_user(), arguments.prepare)
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)
        native = native_runs(
            launcher, argv, path, arguments.runs, ignore_failure=arguments.ignore_failure
        )
        wall_ns = max(outcome.run.wall_ns for outcome in native if outcome.run is not None)
        with Progress() as progress:
            tick = (lambda s: progress.simulating(s, wall_ns)) if progress.shown else None
            return native, simulate(launcher, valgrind, geometry, argv, native[0], tick)


def _calibration(arguments: argparse.Namespace) -> Obtained:
    from tlbcost import calibration
    from tlbcost.calibration_file import read_calibration

    if arguments.calibration is not None:
        if arguments.recalibrate:
            raise TlbcostError(
                "--calibration and --recalibrate exclude each other", "give one of them", USAGE
            )
        file: Path = arguments.calibration
        try:
            return calibration.Obtained(read_calibration(file), f"from {file}")
        except TlbcostError as error:
            hint = "leave --calibration out to measure this machine"
            raise TlbcostError(f"cannot use the calibration: {error}", hint, TOOL_FAILED) from error
    with Progress() as progress:
        return calibration.obtain(
            recalibrate=arguments.recalibrate,
            announce=progress.announce,
            progress=progress.calibrating if progress.shown else None,
        )


def _geometry(calibrated: Calibration, machine: Machine) -> tuple[Geometry, tuple[str, ...]]:
    """The TLBs to simulate, and notes on what had to be assumed."""
    from tlbcost import units
    from tlbcost.geometry import choose
    from tlbcost.machine import huge_page_bytes

    size = huge_page_bytes()
    if size is not None:
        return choose(calibrated, machine, size), ()
    # One level of page tables, with 8 bytes per entry, up from the base page.
    size = machine.base_page_bytes * (machine.base_page_bytes // 8)
    note = f"this kernel tells no huge page size; {units.size(size)} is assumed"
    return choose(calibrated, machine, size), (note,)


def _check_costs(calibrated: Calibration, machine: Machine) -> None:
    """Without the costs on base pages there is no estimate: say so before the program runs."""
    from tlbcost import units
    from tlbcost.costs import cost_at

    size = machine.base_page_bytes
    missing = [
        words
        for name, words in (("stlb_hit_ns", "an STLB hit"), ("walk_ns", "a page walk"))
        if cost_at(calibrated, name, size, "serial") is None
    ]
    if missing:
        raise TlbcostError(
            f"no estimate: the calibration does not tell what {' and '.join(missing)} "
            f"cost{'s' if len(missing) == 1 else ''} on {units.size(size)} pages",
            "tlbcost calibrate --recalibrate, on a quiet machine",
            CANNOT_MEASURE,
        )


def assemble(
    argv: list[str],
    path: Path,
    machine: Machine,
    calibrated: Obtained,
    notes: tuple[str, ...],
    geometry: Geometry,
    native: list[Outcome],
    simulation: Simulation,
) -> Content:
    """Apply the model to what was obtained."""
    import datetime

    from tlbcost import model, totals
    from tlbcost.costs import page_costs
    from tlbcost.paths import version
    from tlbcost.report.content import CalibrationUsed, Content
    from tlbcost.surroundings import surroundings

    sizes = (geometry.base.page_size_bytes, geometry.huge.page_size_bytes)
    processes = simulation.processes
    if geometry.huge.entry_bytes == sizes[0]:
        processes = tuple(totals.splintered(process, *sizes) for process in processes)
    footprint_bytes = totals.footprint_pages(processes) * sizes[0]
    base, huge = (
        page_costs(
            calibrated.calibration,
            level.page_size_bytes,
            level.entry_bytes or level.page_size_bytes,
            footprint_bytes,
        )
        for level in (geometry.base, geometry.huge)
    )
    runs = tuple(outcome.run for outcome in native if outcome.run is not None)
    counts = totals.total_counts(processes)
    footprint = totals.total_footprint(processes, sizes[1] // sizes[0])
    return Content(
        version=version(),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=machine,
        surroundings=surroundings(),
        argv=tuple(argv),
        path=path,
        runs=runs,
        codes=tuple(outcome.code for outcome in native),
        simulated=simulation.outcome.run,
        simulated_code=simulation.outcome.code,
        calibration=CalibrationUsed(
            calibrated.calibration.machine, calibrated.calibration.date, calibrated.source, notes
        ),
        geometry=geometry,
        base_costs=base,
        huge_costs=huge,
        processes=processes,
        counts=counts,
        footprint=footprint,
        estimate=model.estimate(runs, counts, footprint, base, huge),
    )


def _print(content: Content, arguments: argparse.Namespace) -> None:
    from tlbcost.report.json import to_json
    from tlbcost.report.output import write
    from tlbcost.report.text import print_report

    # The text first: a report must not be lost because a second copy cannot be written.
    if arguments.output is None:
        print_report(content, sys.stderr)
    else:
        text = io.StringIO()
        print_report(content, text)
        write(arguments.output, text.getvalue(), TOOL_FAILED)
    if arguments.json is not None:
        write(arguments.json, to_json(content), TOOL_FAILED)
