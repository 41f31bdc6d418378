# SPDX-License-Identifier: GPL-2.0-or-later
"""How often does a program miss the TLBs? Runs it once in the simulator and reads its counts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.progress import Progress, Tick
from tlbcost.processors.geometry import Geometry, TlbLevel
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome
from tlbcost.simulator.counts import ProcessCounts, read_counts
from tlbcost.simulator.failures import check_simulated, reason_of
from tlbcost.simulator.left_behind import end_left_behind
from tlbcost.simulator.memory_tables import OPTIONS, ImageAttribution, read_attributions
from tlbcost.simulator.views import ImageViews, read_views
from tlbcost.simulator.windows import ImageWindows, WindowPlan, read_windows
from tlbcost.system import hints


@dataclass(frozen=True, slots=True)
class Simulation:
    """What was counted, modelled and attributed in each process image, and how the run ended.

    `left_behind`: processes that still ran when the program had ended; counted until then.
    """

    processes: tuple[ProcessCounts, ...]
    outcome: Outcome
    windows: tuple[ImageWindows, ...] = ()
    attributions: tuple[ImageAttribution, ...] = ()
    views: tuple[ImageViews, ...] = ()
    left_behind: int = 0


def find_valgrind() -> Path:
    """Valgrind's own launcher, not Debian's wrapper, which changes the environment.

    Raises TlbcostError with exit code 4 if it or the simulator is missing.
    """
    found = shutil.which("valgrind")
    if found is None:
        raise TlbcostError(
            "cannot count TLB misses: valgrind is not installed",
            hints.install("valgrind") or "tlbcost doctor, which shows how to get valgrind",
            CANNOT_MEASURE,
        )
    if not any(paths.valgrind_lib().glob("tlbsim-*")):
        raise TlbcostError(
            f"cannot count TLB misses: the simulator is not built ({paths.valgrind_lib()})",
            hints.rebuild(),
            CANNOT_MEASURE,
        )
    real = Path(found).with_name("valgrind.bin")
    return real if os.access(real, os.X_OK) else Path(found)


def simulator_command(
    valgrind: Path,
    folder: Path,
    geometry: Geometry,
    windows: WindowPlan | None = None,
    core: str | None = None,
    options: Sequence[str] = (),
) -> list[str]:
    """The command line before the program's own.

    `windows` of it are modelled on `core` as well; each needs the other.
    """
    modelled = []
    if windows is not None and core is not None:
        modelled = [f"--windows={windows.option}", f"--core={core}"]
    return [
        str(valgrind),
        "--tool=tlbsim",
        "--trace-children=yes",
        # The debugger's pipes would remain in TMPDIR when a process is killed.
        "--vgdb=no",
        f"--log-file={folder}/log.%p",
        f"--counts-dir={folder}",
        *OPTIONS.split(),
        *("=".join(option) for option in level_options(geometry)),
        *modelled,
        *options,
    ]


def level_options(geometry: Geometry) -> list[tuple[str, str]]:
    """Options that say which TLBs to model, and their values; both engines have them."""
    base, huge = geometry.base, geometry.huge
    return [
        ("--base-page", str(base.page_size_bytes)),
        ("--huge-page", str(huge.page_size_bytes)),
        ("--l1d", f"{_level(base.dtlb)},{_level(huge.dtlb)}"),
        ("--l1i", f"{_level(base.itlb)},{_level(huge.itlb)}"),
        ("--stlb", f"{_level(base.stlb)},{_level(huge.stlb)}"),
        *([("--stlb-folded", "yes")] if geometry.stlb_folded else []),
    ]


def simulate(
    launcher: Launcher,
    valgrind: Path,
    geometry: Geometry,
    argv: Sequence[str],
    native: Outcome,
    windows: WindowPlan | None = None,
    core: str | None = None,
    options: Sequence[str] = (),
    read: Callable[[Path], None] | None = None,
) -> Simulation:
    """Run the program once in the simulator; `windows` and `core` as for `simulator_command`.

    Of the launcher's region, if it has one, it counts and models what the program's own process
    does in it. `options`: more of the simulator's; `read` gets the folder of its tables before it
    is removed. `native` is how it ends by itself.

    Raises TlbcostError with exit code 125 if the simulation was
    stopped by something that does not happen natively, or counted nothing.
    """
    folder = launcher.folder / f"counts{launcher.runs}"
    folder.mkdir()
    if launcher.user is not None:
        os.chown(folder, launcher.user.uid, launcher.user.gid)
    if launcher.region is not None:
        options = (*options, *launcher.region.options("--region-start", "--region-end"))
    try:
        with Progress("simulation") as progress:
            outcome = launcher.execute(
                [*simulator_command(valgrind, folder, geometry, windows, core, options), *argv],
                discard=True,
                environment={**os.environ, "VALGRIND_LIB": str(paths.valgrind_lib())},
                tick=_ticks(progress, native),
                whole=True,
            )
    finally:
        # Else the folder could not be removed: they make files in it.
        left_behind = end_left_behind(folder)
    if outcome.exec_errno is not None:
        raise TlbcostError(
            f"cannot run {valgrind}: {os.strerror(outcome.exec_errno).lower()}",
            hints.install("valgrind") or "tlbcost doctor, which shows how to get valgrind",
            CANNOT_MEASURE,
        )
    if launcher.region is not None:
        _leave_first_process(folder)
    processes = read_counts(folder)
    check_simulated(argv[0], outcome, native, folder)
    # Every program fetches its first instruction from a page that no TLB holds yet.
    sides = [item for process in processes for item in (process.counts or {}).items()]
    if not any(seen.l1_tlb_misses for (_, side), seen in sides if side == "fetch"):
        raise TlbcostError(
            "the simulation counted nothing: " + reason_of(folder, outcome),
            "tlbcost doctor",
            TOOL_FAILED,
        )
    if all(process.touched is None for process in processes):
        raise TlbcostError(
            "the simulator ran out of memory for noting which pages the program touches",
            "ulimit -v unlimited, or give the program less to do",
            TOOL_FAILED,
        )
    if read is not None:
        read(folder)
    return Simulation(
        processes,
        outcome,
        read_windows(folder),
        read_attributions(folder),
        read_views(folder),
        left_behind,
    )


def _leave_first_process(folder: Path) -> None:
    """Remove what others wrote: a region is timed natively in the process that was started."""
    parents = {each.pid: each.parent_pid for each in read_counts(folder)}
    first = {pid for pid, parent in parents.items() if parent not in parents}
    for table in folder.glob("*.tsv"):
        if int(table.name.split(".")[1]) not in first:
            table.unlink()


def _ticks(progress: Progress, native: Outcome) -> Tick | None:
    run = native.run
    if run is None:
        return None
    return progress.simulating(run.user_ns + run.system_ns, run.wall_ns)


def _level(level: TlbLevel | None) -> str:
    return "0:0" if level is None else f"{level.entries}:{level.ways}"
