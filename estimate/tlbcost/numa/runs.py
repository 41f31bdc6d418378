# SPDX-License-Identifier: GPL-2.0-or-later
"""A program's placement, by a native run and one in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.calibration.file import look_up, read_calibration
from tlbcost.calibration.records import Calibration
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.progress import RunProgress, say
from tlbcost.numa.locality import NodePlacement
from tlbcost.numa.node_memory import NodeMemory, PlacementSampler
from tlbcost.numa.placement import (
    Spread,
    cache_sizes,
    choose_nodes,
    first_touch,
    gather,
    machine_nodes,
    score,
)
from tlbcost.numa.placement_table import ImagePlacement, PlacementPlan, plan_for, read_placements
from tlbcost.numa.report import worded
from tlbcost.numa.study import Study, conclude
from tlbcost.run import launch
from tlbcost.run.launch import Launcher, launcher_of
from tlbcost.run.outcome import Outcome, check_outcome
from tlbcost.simulator.geometry import geometry_for
from tlbcost.simulator.run import Simulation, find_valgrind, simulate
from tlbcost.system.machine import Machine, current_machine, huge_page_or_assumed


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaRequest:
    """What to study. None: this machine's.

    `caches`: bytes of L2 and of the share of the L3 that a thread has. `prepare`: shell command
    before each run. `ignore_failure`: continue if the program fails.
    """

    argv: tuple[str, ...]
    nodes: int | None = None
    spread: Spread = "round-robin"
    caches: tuple[int, int] | None = None
    calibration: Path | None = None
    prepare: str | None = None
    ignore_failure: bool = False


def study_placement(request: NumaRequest) -> Study:
    """Run the program natively and simulated. Raises TlbcostError with the code to exit with."""
    with launcher_of(request.prepare) as launcher:
        path = launch.resolve(request.argv[0])
        launch.check_simulatable(path)
        find_valgrind()
        machine = current_machine()
        calibrated, source = calibration_here(request.calibration)
        caches = cache_sizes() if request.caches is None else (*request.caches, "as asked for")
        native, real = _native(launcher, request, path, machine)
        assert native.run is not None
        plan = plan_for(native.run, *caches)
        images, simulation = _follow(launcher, request.argv, native, machine, calibrated, plan)
    found = conclude(
        machine,
        request.argv,
        native.run,
        simulation,
        images,
        plan,
        choose_nodes(request.nodes),
        request.spread,
        calibrated,
        source,
        real,
    )
    return worded(found)


def node_placement(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    native: Outcome,
    machine: Machine,
    calibrated: Calibration,
    *,
    asked: int | None,
    simulated: bool,
) -> NodePlacement | None:
    """First touch on both page sizes; None for one node or no simulation. Raises TlbcostError."""
    if asked is None and (len(machine_nodes()) < 2 or not simulated):
        return None
    launch.check_simulatable(path)
    nodes = choose_nodes(asked)
    assert native.run is not None
    plan = plan_for(native.run, *cache_sizes())
    images, _ = _follow(launcher, argv, native, machine, calibrated, plan)
    pages = gather(images, nodes.count)
    base, huge = (score(pages.totals, first_touch(pages, huge=huge)) for huge in (False, True))
    if base.local_fraction is None:
        say("NUMA nodes are left out: the program's data fits its caches")
        return None
    return NodePlacement(nodes.count, nodes.sentence, base, huge)


def _follow(
    launcher: Launcher,
    argv: Sequence[str],
    native: Outcome,
    machine: Machine,
    calibrated: Calibration | None,
    plan: PlacementPlan,
) -> tuple[tuple[ImagePlacement, ...], Simulation]:
    """Follow every process of the program in the simulator. Raises TlbcostError."""
    geometry = geometry_for(calibrated, machine, huge_page_or_assumed(machine)[0])
    found: list[tuple[ImagePlacement, ...]] = []
    simulation = simulate(
        launcher,
        find_valgrind(),
        geometry,
        argv,
        native,
        options=("--attribute=no", *plan.options),
        read=lambda folder: found.append(read_placements(folder)),
    )
    if not found or not found[0]:
        raise TlbcostError(
            "the simulation reports no process that finished",
            "a killed program has no placement: let it exit by itself",
            TOOL_FAILED,
        )
    return found[0], simulation


def _native(
    launcher: Launcher, request: NumaRequest, path: Path, machine: Machine
) -> tuple[Outcome, NodeMemory | None]:
    """Run it once with its own output; sample where its memory is if there are several nodes."""
    argv = request.argv
    sampler = None if len(machine_nodes()) < 2 else PlacementSampler(machine.base_page_bytes)
    try:
        with RunProgress("native run", 1) as progress, progress.run(own_output=True) as tick:
            started = None if sampler is None else sampler.start
            outcome = launcher.execute(argv, discard=False, tick=tick, started=started)
    finally:
        real = None if sampler is None else sampler.stop()
    if outcome.exec_errno is not None:
        raise launch.start_failure(argv[0], path, outcome.exec_errno)
    check_outcome(argv[0], outcome, [], ignore_failure=request.ignore_failure)
    if outcome.run is None:
        raise TlbcostError(f"cannot time {argv[0]}: it wrote no times", None, TOOL_FAILED)
    return outcome, real


def calibration_here(file: Path | None) -> tuple[Calibration | None, str]:
    """The one in the file, else the cached one; nothing is measured for this."""
    if file is not None:
        try:
            return read_calibration(file), f"from {file}"
        except TlbcostError as error:
            hint = "drop --calibration"
            raise TlbcostError(f"cannot use the calibration: {error}", hint, TOOL_FAILED) from error
    cached, why = look_up()
    if cached is None:
        return None, why or "no calibration of this machine is cached"
    return cached.calibration, cached.source
