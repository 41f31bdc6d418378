# SPDX-License-Identifier: GPL-2.0-or-later
"""How is what an estimate needs obtained: by running the program here, or from files?

`arguments` are those of the command line (commands/estimate.py).
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from tlbcost.accuracy.record import track_records
from tlbcost.answer.backend import Choice, choose
from tlbcost.answer.conclude import Ingredients
from tlbcost.answer.surroundings import surroundings
from tlbcost.attribution.backed import Seen
from tlbcost.attribution.sampled import Sampled, sample_misses
from tlbcost.calibration.costs import check_costs
from tlbcost.calibration.records import Obtained
from tlbcost.calibration.request import calibration_for
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.progress import Progress
from tlbcost.counters.count_runs import count_program
from tlbcost.counters.event_counts import EventCounts, join_runs, merge_sources
from tlbcost.counters.importing.file import import_file
from tlbcost.memory.peak_sampler import PeakSampler
from tlbcost.numa.runs import node_placement
from tlbcost.processors.event_tables import generic_pmu, load_pmu, named
from tlbcost.processors.geometry import Geometry
from tlbcost.run.launch import Launcher, launcher_of, native_runs
from tlbcost.run.outcome import Outcome, check_outcome
from tlbcost.run.program import check_simulatable, resolve
from tlbcost.simulator.conditions import Conditions
from tlbcost.simulator.core import Core, core_for
from tlbcost.simulator.geometry import geometry_for
from tlbcost.simulator.run import Simulation, find_valgrind, simulate
from tlbcost.simulator.windows import plan_for
from tlbcost.system.machine import Machine, current_machine, huge_page_or_assumed

# Where a file does not tell: the huge pages of most machines of an architecture.
_USUAL_HUGE_BYTES = {"ppc64le": 16 << 20, "s390x": 1 << 20}
_MOST_USUAL_HUGE_BYTES = 2 << 20
# Looking at its memory takes so small a part of the last run while it grows.
_REST = 10


def imported(arguments: argparse.Namespace) -> Ingredients:
    """The counts in files. Raises TlbcostError naming the file and its defect."""
    asked = None if arguments.cpu is None else named(arguments.cpu)
    calibrated = None if arguments.calibration is None else _calibrated(arguments)
    parts = [import_file(file, asked, arguments.object) for file in arguments.imported]
    counted = merge_sources(parts)
    pmu = asked or (generic_pmu() if counted.pmu is None else load_pmu(counted.pmu))
    machine = counted.machine
    if machine is None and calibrated is not None:
        machine = calibrated.calibration.machine
    huge = _USUAL_HUGE_BYTES.get(pmu.architecture, _MOST_USUAL_HUGE_BYTES)
    if machine is not None:
        huge = machine.base_page_bytes * (machine.base_page_bytes // 8)
    return Ingredients(
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


def _command_of(counted: EventCounts) -> tuple[str, ...]:
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
    core: Core | None
    no_core: str | None
    huge_page_bytes: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Ran:
    """What came of running the program; `seen`: its memory in the last native run, at its peak."""

    native: list[Outcome]
    counted: EventCounts | None
    simulation: Simulation | None
    seen: Seen
    sampled: Sampled | None = None
    notes: tuple[str, ...] = ()


def measured(
    arguments: argparse.Namespace, argv: list[str], launcher: Launcher | None = None
) -> Ingredients:
    """Run the program, count and calibrate. Raises TlbcostError with the code to exit with.

    `launcher`: one that is there already, e.g. since more runs are to follow.
    """
    path = resolve(argv[0])
    machine = current_machine()
    setup = _set_up(arguments, machine, path)
    if launcher is not None:
        ran = _run_program(arguments, launcher, argv, path, setup)
        placed = None
    else:
        with launcher_of(arguments.prepare) as own:
            ran = _run_program(arguments, own, argv, path, setup, attributed=True)
            placed = node_placement(
                own, argv, path, ran.native[0], machine, setup.calibrated.calibration,
                asked=arguments.nodes, simulated=setup.choice.simulate,
            )  # fmt: skip
    return Ingredients(
        argv=tuple(argv),
        path=path,
        machine=machine,
        surroundings=surroundings(),
        huge_page_bytes=setup.huge_page_bytes,
        calibrated=setup.calibrated,
        notes=setup.choice.notes,
        calibration_notes=setup.notes + ran.notes,
        native=tuple(ran.native),
        geometry=setup.geometry,
        simulation=ran.simulation,
        counted=ran.counted,
        seen=ran.seen,
        sampled=ran.sampled,
        pmu=setup.choice.pmu,
        tried=track_records(machine),
        model=arguments.model,
        no_core=setup.no_core,
        placed=placed,
    )


def _set_up(arguments: argparse.Namespace, machine: Machine, path: Path) -> _Setup:
    choice = choose(arguments.backend, machine)
    if arguments.model != "auto" and not choice.simulate:
        raise TlbcostError(
            f"--model {arguments.model} is of a simulation, and counters are read here",
            "--backend sim, or leave --model out",
            USAGE,
        )
    for note in choice.notes:
        print(f"tlbcost: {note}", file=sys.stderr)
    valgrind = None
    if choice.simulate:
        check_simulatable(path)
        valgrind = find_valgrind()
    calibrated = _calibrated(arguments)
    huge, notes = huge_page_or_assumed(machine)
    geometry, core, no_core = None, None, None
    if choice.simulate:
        geometry = geometry_for(calibrated.calibration, machine, huge)
        if arguments.model != "simple":
            core = core_for(calibrated.calibration, machine, geometry)
            no_core = _without_core(arguments) if core is None else None
    if choice.simulate or choice.needs_costs:
        check_costs(calibrated.calibration, machine)
    notes += core.notes if core is not None else ()
    return _Setup(choice, valgrind, calibrated, geometry, core, no_core, huge, notes)


def _calibrated(arguments: argparse.Namespace) -> Obtained:
    return calibration_for(arguments.calibration, recalibrate=arguments.recalibrate)


def _without_core(arguments: argparse.Namespace) -> str:
    """Why the overlap model cannot be used; refuses if it has to be."""
    why = "the calibration does not tell what loads cost"
    if arguments.model == "overlap":
        raise TlbcostError(
            f"no estimate by the overlap model: {why}",
            "tlbcost calibrate --recalibrate, or --model simple",
            CANNOT_MEASURE,
        )
    return why


def _run_program(
    arguments: argparse.Namespace,
    launcher: Launcher,
    argv: list[str],
    path: Path,
    setup: _Setup,
    *,
    attributed: bool = False,
) -> _Ran:
    """Time the program, with counters where these are read, and `attributed`: samples; simulate."""
    conditions = Conditions(
        setup.core, setup.calibrated.calibration, own=arguments.calibration is None
    )
    sampler, sampled = PeakSampler(_REST, frames=conditions.frames_matter), None
    try:
        native, counted = _native(arguments, launcher, argv, path, setup, sampler, conditions)
        if attributed and setup.choice.pmu is not None:
            sampled = sample_misses(
                launcher, argv, path, setup.choice.pmu, native[0], sampler.start
            )
    finally:
        sampler.stop()
    simulation = None
    if setup.geometry is not None and setup.valgrind is not None:
        core = conditions.core_then(sampler.isolated_pages())
        simulation = _simulate(launcher, setup, argv, native, core)
    return _Ran(native, counted, simulation, sampler.peak(), sampled, conditions.notes)


def _native(
    arguments: argparse.Namespace,
    launcher: Launcher,
    argv: list[str],
    path: Path,
    setup: _Setup,
    sampler: PeakSampler,
    conditions: Conditions,
) -> tuple[list[Outcome], EventCounts | None]:
    n: int = arguments.runs
    tolerant: bool = arguments.ignore_failure
    if setup.choice.pmu is None:
        runs = native_runs(
            launcher, argv, path, n,
            ignore_failure=tolerant, last_started=sampler.start, between=conditions.measure,
        )  # fmt: skip
        return runs, None

    outcomes: list[Outcome] = []

    def note(outcome: Outcome) -> bool:
        check_outcome(argv[0], outcome, outcomes, ignore_failure=tolerant)
        outcomes.append(outcome)
        conditions.measure()
        return True

    parts: list[EventCounts] = []
    # Events that do not fit into one run take several: these are the runs that are timed, too.
    while len(outcomes) < n:
        parts.append(
            count_program(
                launcher, argv, setup.choice.pmu, setup.choice.events, path=path, go_on=note
            )
        )
    return outcomes, join_runs(parts)


def _simulate(
    launcher: Launcher,
    setup: _Setup,
    argv: list[str],
    native: list[Outcome],
    modelled: Core | None,
) -> Simulation:
    assert setup.valgrind is not None
    assert setup.geometry is not None
    runs = [outcome.run for outcome in native if outcome.run is not None]
    wall_ns = max(run.wall_ns for run in runs)
    core = None if modelled is None else modelled.option
    plan = None if core is None else plan_for(runs)
    with Progress() as progress:
        tick = (lambda s: progress.simulating(s, wall_ns)) if progress.shown else None
        return simulate(launcher, setup.valgrind, setup.geometry, argv, native[0], tick, plan, core)
