# SPDX-License-Identifier: GPL-2.0-or-later
"""How often does a program miss the TLBs? Runs it once in the simulator and reads its counts."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import formats, paths
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.table import Table, count, read_table
from tlbcost.processors.geometry import Geometry, TlbLevel
from tlbcost.run.launch import Launcher, Outcome, describe_limit
from tlbcost.simulator.bad_instruction import bad_instruction_error, find_bad_instruction
from tlbcost.simulator.counts import ProcessCounts, Side, SideCounts, Touched
from tlbcost.simulator.memory_tables import OPTIONS, ImageAttribution, read_attributions
from tlbcost.simulator.views import ImageViews, read_views
from tlbcost.simulator.windows import ImageWindows, WindowPlan, read_windows
from tlbcost.system import hints

# What Valgrind says of faults of its own, the tool's among them.
_BROKEN = re.compile(r"VALGRIND INTERNAL ERROR|[`']impossible' happened")
_SIDES: Mapping[str, Side] = {"load": "load", "store": "store", "fetch": "fetch"}


@dataclass(frozen=True, slots=True)
class Simulation:
    """What was counted, modelled and attributed in each process image, and how the run ended."""

    processes: tuple[ProcessCounts, ...]
    outcome: Outcome
    windows: tuple[ImageWindows, ...] = ()
    attributed: tuple[ImageAttribution, ...] = ()
    views: tuple[ImageViews, ...] = ()


def find_valgrind() -> Path:
    """Valgrind's own launcher, and not Debian's wrapper, which changes the environment.

    Raises TlbcostError with exit code 4 if it or the simulator is missing.
    """
    found = shutil.which("valgrind")
    if found is None:
        raise TlbcostError(
            "cannot count TLB misses: valgrind is not installed",
            hints.install("valgrind") or "tlbcost doctor, which tells how to get valgrind",
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
    """The command line that stands before the program's own.

    `windows` of it are modelled on `core` as well; either without the other is of no use.
    """
    base, huge = geometry.base, geometry.huge
    modelled = []
    if windows is not None and core is not None:
        modelled = [f"--windows={windows.option}", f"--core={core}"]
    return [
        str(valgrind),
        "--tool=tlbsim",
        "--trace-children=yes",
        # The debugger's pipes would stay behind in TMPDIR when a process is killed.
        "--vgdb=no",
        f"--log-file={folder}/log.%p",
        f"--counts-dir={folder}",
        *OPTIONS.split(),
        f"--base-page={base.page_size_bytes}",
        f"--huge-page={huge.page_size_bytes}",
        f"--l1d={_level(base.dtlb)},{_level(huge.dtlb)}",
        f"--l1i={_level(base.itlb)},{_level(huge.itlb)}",
        f"--stlb={_level(base.stlb)},{_level(huge.stlb)}",
        *(["--stlb-folded=yes"] if geometry.stlb_folded else []),
        *modelled,
        *options,
    ]


def simulate(
    launcher: Launcher,
    valgrind: Path,
    geometry: Geometry,
    argv: Sequence[str],
    native: Outcome,
    tick: Callable[[float], None] | None,
    windows: WindowPlan | None = None,
    core: str | None = None,
    options: Sequence[str] = (),
    read: Callable[[Path], None] | None = None,
) -> Simulation:
    """Run the program once in the simulator; `windows` and `core` as for `simulator_command`.

    `options`: more of the simulator's; `read` gets the folder of its tables before it goes.
    `native` tells how it ends by itself. Raises TlbcostError with exit code 125 if the simulation
    was stopped by something that does not happen natively, or counted nothing.
    """
    folder = launcher.folder / f"counts{launcher.runs}"
    folder.mkdir()
    if launcher.user is not None:
        os.chown(folder, launcher.user.uid, launcher.user.gid)
    outcome = launcher.execute(
        [*simulator_command(valgrind, folder, geometry, windows, core, options), *argv],
        discard=True,
        environment={**os.environ, "VALGRIND_LIB": str(paths.valgrind_lib())},
        tick=tick,
    )
    if outcome.exec_errno is not None:
        raise TlbcostError(
            f"cannot run {valgrind}: {os.strerror(outcome.exec_errno).lower()}",
            hints.install("valgrind") or "tlbcost doctor, which tells how to get valgrind",
            CANNOT_MEASURE,
        )
    processes = read_counts(folder)
    _check_outcome(argv[0], outcome, native, folder)
    # Every program fetches its first instruction from a page that no TLB holds yet.
    sides = [item for process in processes for item in (process.counts or {}).items()]
    if not any(seen.l1_tlb_misses for (_, side), seen in sides if side == "fetch"):
        raise TlbcostError(
            "the simulation counted nothing: " + _reason(folder, outcome),
            "tlbcost doctor",
            TOOL_FAILED,
        )
    if all(process.touched is None for process in processes):
        raise TlbcostError(
            "the simulator had no memory to note which pages the program touches",
            "ulimit -v unlimited, or give the program less to do",
            TOOL_FAILED,
        )
    if read is not None:
        read(folder)
    return Simulation(
        processes, outcome, read_windows(folder), read_attributions(folder), read_views(folder)
    )


def read_counts(folder: Path) -> tuple[ProcessCounts, ...]:
    """Every process image's counts, in the order of their pids and images."""

    def order(path: Path) -> tuple[int, ...]:
        return tuple(int(part) for part in path.name.split(".") if part.isdigit())

    return tuple(_process(path) for path in sorted(folder.glob("counts.*.tsv"), key=order))


def _level(level: TlbLevel | None) -> str:
    return "0:0" if level is None else f"{level.entries}:{level.ways}"


def _process(path: Path) -> ProcessCounts:
    table = read_table(path, formats.COUNTS, partial=True)
    finished = table.complete and table.header.get("state") != "running"
    return ProcessCounts(
        pid=int(table.key("pid")),
        parent_pid=int(table.key("parent_pid")),
        program=table.key("program"),
        threads=_header_count(table, "threads") if finished else None,
        counts=_sides(table) if finished else None,
        touched=_touched(table) if finished else None,
    )


def _touched(table: Table) -> Touched | None:
    names = ("anonymous_pages", "anonymous_huge_pages", "other_pages")
    pages = [_header_count(table, f"touched_{name}") for name in names]
    known = [n for n in pages if n is not None]
    return Touched(*known) if len(known) == len(pages) else None


def _header_count(table: Table, key: str) -> int | None:
    try:
        return count(table.known(key))
    except ValueError as error:
        raise TlbcostError(f"{table.name}: {key}: {error}") from error


def _sides(table: Table) -> dict[tuple[int, Side], SideCounts]:
    counts: dict[tuple[int, Side], SideCounts] = {}
    for row in table.rows:
        size, access, *misses = row
        try:
            numbers = [count(cell) for cell in misses]
            key = (int(size or ""), _SIDES[access or ""])
        except (KeyError, ValueError) as error:
            raise TlbcostError(f"{table.name}: not a row of counts: {row}") from error
        known = [number for number in numbers if number is not None]
        if len(known) != len(numbers):
            raise TlbcostError(f"{table.name}: a count is missing: {row}")
        counts[key] = SideCounts(*known)
    return counts


def _check_outcome(name: str, outcome: Outcome, native: Outcome, folder: Path) -> None:
    """Tell the failures of the simulation from those of the program."""
    if outcome.code == native.code:
        return
    logs = _logs(folder)
    bad = find_bad_instruction(logs)
    if bad is not None:
        raise bad_instruction_error(name, bad)
    if outcome.memory_limit_bytes is not None:
        raise TlbcostError(
            f"the simulation of {name} was killed at "
            f"{describe_limit(outcome.memory_limit_bytes)}; natively it fits",
            "raise the limit (the simulator takes about 100 MB and a little per page "
            "that the program touches), or give the program less to do",
            TOOL_FAILED,
        )
    if any("memory management: out of memory" in log for log in logs):
        raise TlbcostError(
            f"the simulation of {name} ran out of memory",
            "ulimit -v unlimited, or give the program less to do",
            TOOL_FAILED,
        )
    broken = [line for log in logs for line in log.splitlines() if _BROKEN.search(line)]
    if broken:
        raise TlbcostError(
            f"the simulator broke down in {name}: {broken[0]}",
            "please report it, with the program and that line",
            TOOL_FAILED,
        )
    if outcome.signal == signal.SIGKILL:
        raise TlbcostError(
            f"the simulation of {name} was killed by SIGKILL; natively the program was not",
            "free some memory (the kernel's log tells: dmesg | tail), then try again",
            TOOL_FAILED,
        )


def _logs(folder: Path) -> list[str]:
    texts = []
    for path in sorted(folder.glob("log.*")):
        with path.open(encoding="utf-8", errors="replace") as file:
            texts.append(file.read(1 << 20))
    return texts


def _reason(folder: Path, outcome: Outcome) -> str:
    """What Valgrind complained about first, else said last, where we have no message of our own."""
    for text in (outcome.last_words, *reversed(_logs(folder))):
        lines = [re.sub(r"^==\d+== ?", "", line).strip() for line in text.splitlines()]
        complaints = [line for line in lines if line.startswith("valgrind: ")]
        if complaints:
            return complaints[0]
        if any(lines):
            return [line for line in lines if line][-1]
    return f"it {outcome.describe()}"
