# SPDX-License-Identifier: GPL-2.0-or-later
"""Where do events of a program happen? The run around tlbcost-record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.counters.counted import Mode
from tlbcost.counters.hits import Hits, read_hits
from tlbcost.counters.refusal import diagnose
from tlbcost.counters.target import Target, watch
from tlbcost.counters.tool import Wanted
from tlbcost.processors.event_tables import generic_pmu
from tlbcost.processors.events import Event, Pmu
from tlbcost.run import program
from tlbcost.run.launch import Launcher

PROGRAM = "tlbcost-record"
# What a miss is called, the nearest to a walk first.
_MISSES = ("walks_completed", "stlb_misses", "dtlb_misses", "dtlb_load_misses")
_PRECISE = ("sample_load_misses", "sample_store_misses")
SOFTWARE = ("task_clock_ns", "page_faults")
# Events from sample to sample: some thousands of samples a second where translation hurts. Primes,
# so that sampling does not keep step with a loop of the program.
_PERIODS = {
    "cycles": 2_000_003,
    "instructions": 2_000_003,
    "task_clock_ns": 1_000_003,
    "page_faults": 1,
    "minor_faults": 1,
    "major_faults": 1,
    "context_switches": 1,
}
_CYCLES_PERIOD = 200_003
_MISSES_PERIOD = 10_007


@dataclass(frozen=True, slots=True)
class Pace:
    """How often samples are taken: each `period`th event, or `frequency` a second, or (both None)
    as suits the event."""

    period: int | None = None
    frequency: int | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """What is recorded, of what, and how. `argv` with its `path`: the program, if there is one."""

    wanted: tuple[Wanted, ...]
    mode: Mode
    pace: Pace
    target: Target
    addresses: bool

    def options(self) -> list[str]:
        """Of tlbcost-record."""
        chosen = ["--quiet", *self.target.options()]
        for each in self.wanted:
            chosen += ["--event", f"{_word(each)}={each.spec}", *_pace(each, self.pace)]
        if self.mode != "both":
            chosen.append(f"--{self.mode}-only")
        if self.addresses:
            chosen.append("--addresses")
        return chosen


def default_names(pmu: Pmu, *, addresses: bool) -> list[str]:
    """Cycles, and the misses of data on this CPU: those that tell addresses, if these are asked
    for."""
    roles = [_PRECISE] if addresses else []
    for some in (*roles, *((role,) for role in _MISSES)):
        found = [
            event.name
            for event in pmu.events
            if event.role in some and event.page_size_bytes is None and event.access != "fetch"
        ]
        if found:
            # AMD's and Arm's generic events tell loads and stores apart where they can.
            stores = [e.name for e in pmu.events if e.name == "dtlb_store_misses"]
            return ["cycles", *found, *(stores if found == ["dtlb_load_misses"] else [])]
    return ["cycles"]


def addressed(pmu: Pmu) -> tuple[Event, ...]:
    """Events of data that missed the TLBs whose samples tell the data's address."""
    return tuple(event for event in pmu.events if event.role in _PRECISE)


def record(
    recording: Recording, folder: Path, launch: Callable[[Sequence[str], Path], int] | None
) -> tuple[int, Path, Hits]:
    """Record once; the program's exit code (0: there is none), the table, and what it says.

    `launch` runs the program with tlbcost-record, given its command line and the file for the
    table of hits. Raises TlbcostError: what diagnose() says, with exit code 4, if nothing could be
    sampled, and then nothing has run.
    """
    table = folder / "hits.tsv"
    tool = [PROGRAM, *recording.options(), "--output", str(table)]
    try:
        code = launch(tool, table) if launch else watch(tool[1:], PROGRAM)
    except TlbcostError as error:
        if error.exit_code != CANNOT_MEASURE:
            raise
        code = CANNOT_MEASURE
        refused = True
    else:
        refused = launch is None and code == CANNOT_MEASURE
    if not table.exists():
        raise TlbcostError(
            f"cannot record: {PROGRAM} exited with {code}",
            "if the disk is full, give TMPDIR a folder with room",
            TOOL_FAILED,
        )
    hits = read_hits(table)
    if refused:
        refusals = [event.refusal() for event in hits.events]
        raise diagnose(refusals, recording.target.scope, recording.mode, recording.target.pid)
    return code, table, hits


def launcher_of(
    launcher: Launcher,
    argv: Sequence[str],
    path: Path,
    started: Callable[[int], None] | None = None,
) -> Callable[[Sequence[str], Path], int]:
    """A `launch` for record(): raises what start_failure() says if the program cannot start.

    `started`: as in Launcher.execute(). The program's output is that of the launcher's first run.
    """

    def launch(tool: Sequence[str], table: Path) -> int:  # noqa: ARG001
        outcome = launcher.execute(argv, discard=launcher.runs > 0, started=started, tool=tool)
        if outcome.exec_errno is not None:
            raise program.start_failure(argv[0], path, outcome.exec_errno)
        return outcome.code

    return launch


def _word(wanted: Wanted) -> str:
    """What the event is called in the table; a word without '=', which ends it."""
    return wanted.role_name or wanted.event.replace("=", "")


def _pace(wanted: Wanted, pace: Pace) -> list[str]:
    if pace.frequency is not None:
        return ["--frequency", str(pace.frequency)]
    if pace.period is not None:
        return ["--period", str(pace.period)]
    role = _role(wanted)
    if role is None:
        return []
    # AMD's instruction-based sampling takes any operation, few of which miss.
    often = role.endswith(("_cycles", "_slots")) or "ibs_" in wanted.spec
    other = _CYCLES_PERIOD if often else _MISSES_PERIOD
    return ["--period", str(_PERIODS.get(role, other))]


def _role(wanted: Wanted) -> str | None:
    if wanted.role_name is not None:
        return wanted.role_name.split(".")[0]
    return next((e.role for e in generic_pmu().events if e.string == wanted.event), None)
