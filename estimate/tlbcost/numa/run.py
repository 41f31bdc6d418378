# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a program's placement found? Runs it natively, then once in the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tlbcost.calibration.cache import look_up
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Calibration
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.paths import version
from tlbcost.common.progress import Progress
from tlbcost.numa.nodes import Nodes, Spread, cache_sizes, machine_nodes
from tlbcost.numa.placement_table import ImagePlacement, PlacementPlan, plan_for, read_placements
from tlbcost.numa.sampler import NodeMemory, PlacementSampler
from tlbcost.numa.study import Study, conclude
from tlbcost.run import program
from tlbcost.run.launch import Launcher, Outcome, check_outcome
from tlbcost.simulator.geometry import geometry_for
from tlbcost.simulator.run import Simulation, find_valgrind, simulate
from tlbcost.system.machine import Machine, current_machine, huge_page_bytes


def study(
    launcher: Launcher,
    argv: Sequence[str],
    nodes: Nodes,
    spread: Spread,
    *,
    caches: tuple[int, int] | None = None,
    calibration: Path | None = None,
    ignore_failure: bool = False,
) -> Study:
    """Run the program natively and simulated, and judge its placements.

    `caches`: bytes of L2 and of the share of the L3 that a thread has; None: of this machine.
    Raises TlbcostError with the code to exit with.
    """
    path = program.resolve(argv[0])
    program.check_simulatable(path)
    find_valgrind()
    machine = current_machine()
    calibrated, source = _calibration(calibration)
    if caches is None:
        l2_bytes, l3_bytes, of = cache_sizes()
    else:
        l2_bytes, l3_bytes, of = *caches, "as asked for"
    native, real = _native(launcher, argv, path, machine, ignore_failure=ignore_failure)
    assert native.run is not None
    plan = plan_for(native.run, l2_bytes, l3_bytes, of)
    images, simulation = simulated(launcher, argv, native, machine, calibrated, plan)
    return conclude(
        machine, argv, native.run, simulation, images, plan, nodes, spread, calibrated, source, real
    )


def simulated(
    launcher: Launcher,
    argv: Sequence[str],
    native: Outcome,
    machine: Machine,
    calibrated: Calibration | None,
    plan: PlacementPlan,
) -> tuple[tuple[ImagePlacement, ...], Simulation]:
    """Follow every process of the program in the simulator. Raises TlbcostError."""
    geometry = geometry_for(calibrated or _no_calibration(machine), machine, _huge_bytes(machine))
    found: list[tuple[ImagePlacement, ...]] = []
    wall_ns = native.run.wall_ns if native.run is not None else 0
    with Progress() as progress:
        simulation = simulate(
            launcher,
            find_valgrind(),
            geometry,
            argv,
            native,
            (lambda s: progress.simulating(s, wall_ns)) if progress.shown else None,
            options=("--attribute=no", *plan.options),
            read=lambda folder: found.append(read_placements(folder)),
        )
    if not found or not found[0]:
        raise TlbcostError(
            "the simulation tells of no process that finished",
            "a program that is killed leaves no placement: let it end by itself",
            TOOL_FAILED,
        )
    return found[0], simulation


def _native(
    launcher: Launcher, argv: Sequence[str], path: Path, machine: Machine, *, ignore_failure: bool
) -> tuple[Outcome, NodeMemory | None]:
    """Run it once with its own output; watch where its memory is if there are several nodes."""
    sampler = None if len(machine_nodes()) < 2 else PlacementSampler(machine.base_page_bytes)
    try:
        outcome = launcher.execute(
            argv, discard=False, started=None if sampler is None else sampler.start
        )
    finally:
        real = None if sampler is None else sampler.stop()
    if outcome.exec_errno is not None:
        raise program.start_failure(argv[0], path, outcome.exec_errno)
    check_outcome(argv[0], outcome, [], ignore_failure=ignore_failure)
    if outcome.run is None:
        raise TlbcostError(f"cannot time {argv[0]}: it left no times", None, TOOL_FAILED)
    return outcome, real


def _calibration(file: Path | None) -> tuple[Calibration | None, str]:
    """That in the file, else the cached one; nothing is measured for this."""
    if file is not None:
        try:
            return read_calibration(file), f"from {file}"
        except TlbcostError as error:
            hint = "leave --calibration out"
            raise TlbcostError(f"cannot use the calibration: {error}", hint, TOOL_FAILED) from error
    cached, why = look_up()
    if cached is None:
        return None, why or "no calibration of this machine is cached"
    return cached.calibration, cached.source


def _no_calibration(machine: Machine) -> Calibration:
    """With nothing measured: TLBs are then as published, or assumed."""
    return Calibration(
        machine=machine, date="", version=version(), duration_s=0.0, costs=(), extent="quick"
    )


def _huge_bytes(machine: Machine) -> int:
    # One level of page tables up, where the kernel does not tell.
    return huge_page_bytes() or machine.base_page_bytes * (machine.base_page_bytes // 8)
