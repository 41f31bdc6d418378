# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost estimate: what would huge pages give this program?"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.cleanup import Stopped, signals_raise, temporary_folder
from tlbcost.errors import CANNOT_MEASURE, SIGNAL_BASE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.progress import Progress
from tlbcost.records import Calibration, Geometry, Machine

if TYPE_CHECKING:
    from tlbcost.backend import Choice
    from tlbcost.calibration import Obtained
    from tlbcost.counted import Counted
    from tlbcost.launch import Launcher, Outcome
    from tlbcost.report.content import Content
    from tlbcost.simulate import Simulation

_MOST_RUNS = 1000
# Where a file does not tell: the huge pages of most machines of an architecture.
_USUAL_HUGE_BYTES = {"ppc64le": 16 << 20, "s390x": 1 << 20}
_MOST_USUAL_HUGE_BYTES = 2 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = (
        "tlbcost estimate [options] [--] COMMAND [ARG...]\n"
        "       tlbcost estimate [options] --from FILE [--from FILE]..."
    )
    parser.epilog = (
        "COMMAND keeps its own standard input, output and error. Exit codes: 0 done, 2 usage, "
        "4 this machine cannot measure it, 125 tlbcost failed, 126 or 127 COMMAND could not be "
        "started; a COMMAND that fails gives its own code, or 128 + its signal."
    )
    parser.add_argument(
        "--backend",
        metavar="NAME",
        choices=("auto", "pmu", "sim", "both"),
        default="auto",
        help="count misses with hardware counters (pmu), by simulation (sim), or both; auto: "
        "counters where they can be read, else simulation (default: auto)",
    )
    parser.add_argument(
        "--calibration", metavar="FILE", type=Path, help="use the costs in this calibration table"
    )
    parser.add_argument(
        "--cpu", metavar="MODEL", help="with --from: the CPU that was counted on (tlbcost events)"
    )
    parser.add_argument(
        "--from",
        metavar="FILE",
        type=Path,
        action="append",
        dest="imported",
        help="estimate from counts taken elsewhere: perf stat's output (text, -x or -j), an "
        "opreport listing, or tlbcost count --table; several files are of one program",
    )
    parser.add_argument(
        "--ignore-failure", action="store_true", help="estimate a COMMAND that fails, too"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write the report for programs to this file"
    )
    parser.add_argument(
        "--object", metavar="NAME", help="with --from of a profile: the program's line in it"
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
    parser.add_argument(
        "--walk-cycles",
        metavar="N",
        type=_cycles,
        help="with --from: what one page walk costs, in cycles",
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


def _cycles(text: str) -> float:
    try:
        cycles = float(text)
    except ValueError:
        cycles = 0.0
    if not 0 < cycles < 1e6:
        raise argparse.ArgumentTypeError(f"not a number of cycles: {text}")
    return cycles


def _estimate(arguments: argparse.Namespace) -> None:
    from tlbcost.report.output import check_writable

    argv: list[str] = arguments.program
    if argv[:1] == ["--"]:
        argv = argv[1:]
    _check_usage(arguments, argv)
    # Whatever can be refused is refused before anything takes time.
    for file in (arguments.json, arguments.output):
        if file is not None:
            check_writable(file, TOOL_FAILED)
    content = _imported(arguments) if arguments.imported else _measured(arguments, argv)
    _print(content, arguments)


def _check_usage(arguments: argparse.Namespace, argv: list[str]) -> None:
    if arguments.imported:
        if argv:
            raise TlbcostError(
                f"--from estimates what was counted before; {argv[0]} would not be run",
                "leave the command out, or --from",
                USAGE,
            )
        if arguments.backend == "sim" or arguments.recalibrate:
            raise TlbcostError(
                "--from excludes --backend sim and --recalibrate: nothing is run here",
                "tlbcost estimate --from FILE --cpu MODEL",
                USAGE,
            )
        return
    for option in ("cpu", "object", "walk_cycles"):
        if getattr(arguments, option) is not None:
            raise TlbcostError(
                f"--{option.replace('_', '-')} belongs to --from",
                "tlbcost estimate --from FILE --cpu MODEL",
                USAGE,
            )
    if not argv:
        raise TlbcostError("no program to estimate", "tlbcost estimate -- ./app ARG...", USAGE)


def _imported(arguments: argparse.Namespace) -> Content:
    """The estimate from files."""
    from tlbcost.assemble import Ingredients, assemble
    from tlbcost.events import generic_pmu, load_pmu, named
    from tlbcost.importing import import_file, merge

    asked = None if arguments.cpu is None else named(arguments.cpu)
    calibrated = None if arguments.calibration is None else _calibration(arguments)
    parts = [import_file(file, asked, arguments.object) for file in arguments.imported]
    counted = merge(parts)
    pmu = asked or (generic_pmu() if counted.pmu is None else load_pmu(counted.pmu))
    machine = None if calibrated is None else calibrated.calibration.machine
    huge = _USUAL_HUGE_BYTES.get(pmu.architecture, _MOST_USUAL_HUGE_BYTES)
    if machine is not None:
        huge = machine.base_page_bytes * (machine.base_page_bytes // 8)
    return assemble(
        Ingredients(
            argv=_command_of(counted),
            path=None,
            machine=machine,
            surroundings=None,
            huge_page_bytes=huge,
            calibrated=calibrated,
            counted=counted,
            pmu=pmu,
            walk_cycles=arguments.walk_cycles,
        )
    )


def _command_of(counted: Counted) -> tuple[str, ...]:
    import shlex

    try:
        return tuple(shlex.split(counted.command or "")) or ("(unknown program)",)
    except ValueError:
        return (counted.command or "",)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What is decided before the program runs."""

    choice: Choice
    valgrind: Path | None
    calibrated: Obtained
    geometry: Geometry | None
    huge_page_bytes: int
    notes: tuple[str, ...]


def _measured(arguments: argparse.Namespace, argv: list[str]) -> Content:
    """The estimate of a program that is run here."""
    from tlbcost.assemble import Ingredients, assemble
    from tlbcost.machine import current_machine
    from tlbcost.program import resolve
    from tlbcost.surroundings import surroundings

    path = resolve(argv[0])
    machine = current_machine()
    setup = _set_up(arguments, machine, path)
    native, counted, simulation = _run_program(arguments, argv, path, setup)
    return assemble(
        Ingredients(
            argv=tuple(argv),
            path=path,
            machine=machine,
            surroundings=surroundings(),
            huge_page_bytes=setup.huge_page_bytes,
            calibrated=setup.calibrated,
            notes=setup.choice.notes,
            calibration_notes=setup.notes,
            native=tuple(native),
            geometry=setup.geometry,
            simulation=simulation,
            counted=counted,
            pmu=setup.choice.pmu,
        )
    )


def _set_up(arguments: argparse.Namespace, machine: Machine, path: Path) -> _Setup:
    from tlbcost.backend import choose
    from tlbcost.program import check_simulatable
    from tlbcost.simulate import find_valgrind

    choice = choose(arguments.backend, machine)
    for note in choice.notes:
        print(f"tlbcost: {note}", file=sys.stderr)
    valgrind = None
    if choice.simulate:
        check_simulatable(path)
        valgrind = find_valgrind()
    calibrated = _calibration(arguments)
    huge, notes = _huge_page_bytes(machine)
    geometry = None
    if choice.simulate:
        from tlbcost.geometry import choose as choose_geometry

        geometry = choose_geometry(calibrated.calibration, machine, huge)
    if choice.simulate or choice.needs_costs:
        _check_costs(calibrated.calibration, machine)
    return _Setup(choice, valgrind, calibrated, geometry, huge, notes)


def _run_program(
    arguments: argparse.Namespace, argv: list[str], path: Path, setup: _Setup
) -> tuple[list[Outcome], Counted | None, Simulation | None]:
    """Time the program natively, with counters where these are read, then count its misses."""
    from tlbcost.launch import Launcher
    from tlbcost.stdin import ProgramInput
    from tlbcost.user import calling_user

    with temporary_folder() as folder, contextlib.closing(ProgramInput()) as stdin:
        launcher = Launcher(folder, stdin, calling_user(), arguments.prepare)
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)
        native, counted = _native(arguments, launcher, argv, path, setup)
        if setup.geometry is None or setup.valgrind is None:
            return native, counted, None
        return native, counted, _simulate(launcher, setup, argv, native)


def _native(
    arguments: argparse.Namespace,
    launcher: Launcher,
    argv: list[str],
    path: Path,
    setup: _Setup,
) -> tuple[list[Outcome], Counted | None]:
    from tlbcost.launch import check_outcome, native_runs

    n: int = arguments.runs
    tolerant: bool = arguments.ignore_failure
    if setup.choice.pmu is None:
        return native_runs(launcher, argv, path, n, ignore_failure=tolerant), None
    from tlbcost.counted import together
    from tlbcost.counters import count_program

    outcomes: list[Outcome] = []

    def note(outcome: Outcome) -> bool:
        check_outcome(argv[0], outcome, outcomes, ignore_failure=tolerant)
        outcomes.append(outcome)
        return True

    parts: list[Counted] = []
    # Events that do not fit into one run take several: these are the runs that are timed, too.
    while len(outcomes) < n:
        parts.append(
            count_program(
                launcher, argv, setup.choice.pmu, setup.choice.events, path=path, go_on=note
            )
        )
    return outcomes, together(parts)


def _simulate(
    launcher: Launcher, setup: _Setup, argv: list[str], native: list[Outcome]
) -> Simulation:
    from tlbcost.simulate import simulate

    assert setup.valgrind is not None
    assert setup.geometry is not None
    wall_ns = max(outcome.run.wall_ns for outcome in native if outcome.run is not None)
    with Progress() as progress:
        tick = (lambda s: progress.simulating(s, wall_ns)) if progress.shown else None
        return simulate(launcher, setup.valgrind, setup.geometry, argv, native[0], tick)


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


def _huge_page_bytes(machine: Machine) -> tuple[int, tuple[str, ...]]:
    """The huge page size, and a note if it had to be assumed."""
    from tlbcost import units
    from tlbcost.machine import huge_page_bytes

    size = huge_page_bytes()
    if size is not None:
        return size, ()
    # One level of page tables, with 8 bytes per entry, up from the base page.
    size = machine.base_page_bytes * (machine.base_page_bytes // 8)
    return size, (f"this kernel tells no huge page size; {units.size(size)} is assumed",)


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
