# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost estimate --machine, --page-size: one run of the simulator for all machines and sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Calibration
from tlbcost.calibration.request import calibration_for
from tlbcost.common import units
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.paths import version
from tlbcost.machines.gain import MachineEstimates, results
from tlbcost.machines.one_pass import plan_pass
from tlbcost.machines.plan import (
    BASE_BYTES,
    HUGE_BYTES,
    OtherMachine,
    machine_named,
    of_calibration,
)
from tlbcost.run.launch import check_simulatable, launcher_of, native_runs, resolve
from tlbcost.simulator.run import find_valgrind, simulate
from tlbcost.simulator.windows import MEASURED, WARM, WindowPlan
from tlbcost.symbols.region import region_of

# Windows modelled for one machine on two sizes; fewer for more, since each is modelled on every
# machine and size.
_USUAL_CELLS = 2
# The simulator keeps at least half of these, and the overlap model needs ten.
_FEWEST_WINDOWS, _MOST_WINDOWS = 20, 64


@dataclass(frozen=True, slots=True)
class MachinesRequest:
    """The program to estimate for other machines, separated by commas, and page sizes.

    `names` None: this machine, or that of `calibration`. `page_sizes` empty: 4 KiB and 2 MiB.
    """

    argv: tuple[str, ...]
    names: str | None = None
    page_sizes: tuple[int, ...] = ()
    calibration: Path | None = None
    recalibrate: bool = False
    prepare: str | None = None
    ignore_failure: bool = False
    region: str | None = None


def chosen(request: MachinesRequest) -> list[OtherMachine]:
    sizes = request.page_sizes or (BASE_BYTES, HUGE_BYTES)
    if not request.names:
        obtained = calibration_for(request.calibration, recalibrate=request.recalibrate)
        return [of_calibration(obtained.calibration, sizes, obtained.source)]
    names = [name for name in request.names.split(",") if name]
    if len(set(names)) < len(names) or not names:
        raise TlbcostError(
            f"not a list of different machines: {request.names}", "tlbcost machines", USAGE
        )
    brought = _brought(request, names)
    source = str(request.calibration) if request.calibration else None
    return [machine_named(name, sizes, brought, source) for name in names]


def _brought(request: MachinesRequest, names: list[str]) -> Calibration | None:
    if request.calibration is None:
        return None
    if len(names) > 1:
        raise TlbcostError(
            "--calibration is for one machine, and several are named",
            "name only that machine, or drop --calibration",
            USAGE,
        )
    try:
        return read_calibration(request.calibration)
    except TlbcostError as error:
        raise TlbcostError(f"cannot use the calibration: {error}", None, TOOL_FAILED) from error


def estimate_machines(request: MachinesRequest) -> MachineEstimates:
    path: Path = resolve(request.argv[0])
    region = None if request.region is None else region_of(request.region, path)
    machines = chosen(request)
    check_simulatable(path)
    valgrind = find_valgrind()
    if any(m.sizes[0].page_bytes != BASE_BYTES for m in machines):
        raise TlbcostError(
            f"base pages of {units.size(machines[0].sizes[0].page_bytes)} are not simulated here",
            exit_code=CANNOT_MEASURE,
        )
    plan = plan_pass(machines)
    core = next((m.core.option for m in machines if m.core is not None), None)
    with launcher_of(request.prepare) as launcher:
        launcher.region = region
        native = native_runs(launcher, request.argv, path, 1, ignore_failure=request.ignore_failure)
        runs = [outcome.run for outcome in native if outcome.run is not None]
        windows = None if core is None else windows_for(len(plan.cells))
        simulation = simulate(
            launcher, valgrind, plan.geometry, request.argv, native[0], windows,
            plan.core.option if plan.core is not None else core, plan.options,
        )  # fmt: skip
    ran = simulation.outcome.run
    return MachineEstimates(
        version(),
        now(),
        request.argv,
        runs[0] if runs else None,
        ran.wall_ns if ran is not None else None,
        results(machines, plan, simulation),
        request.region,
    )


def windows_for(cells: int) -> WindowPlan:
    """Fewer and shorter windows if each is timed on more machines and sizes.

    The run time here has no say: the answer for another machine must not depend on this one.
    """
    if cells <= _USUAL_CELLS:
        return WindowPlan(most=_MOST_WINDOWS)
    most = max(_FEWEST_WINDOWS, round(_MOST_WINDOWS * math.sqrt(_USUAL_CELLS / cells)))
    return WindowPlan(warm=WARM * 3 // 4, measured=MEASURED // 2, most=most)
