# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a program run so that copies of its threads are followed?"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tlbcost.common import paths
from tlbcost.processors.published import Geometry
from tlbcost.simulator.run import level_options
from tlbcost.system.process import tracing_rights

if TYPE_CHECKING:
    from tlbcost.copies.tables import CopyTables

# Of one copy, one after the other.
_SLICES = 3
_TOOL = "tlbcost-copies"
# What else than anonymous memory copies can have on huge pages.
Also = Literal["text", "shared memory"]
_ALSO: Mapping[Also, str] = {"text": "--text", "shared memory": "--shared"}


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """How a program is copied.

    `overhead`: the share of its CPU time that copying may cost. `copies`: that many instead.
    `fault_ns`: CPU time of a page that is copied on write.
    """

    geometry: Geometry
    core: str | None
    cycles_per_ns: float
    overhead: float = 0.05
    copies: int | None = None
    fault_ns: int = 1200


def follows_copies_of(architecture: str) -> bool:
    return architecture == "x86_64"


def is_built() -> bool:
    return os.access(paths.libexec(_TOOL), os.X_OK)


def unavailable() -> str | None:
    """Why this machine follows no copies; a running process may be refused besides (process.py)."""
    if not follows_copies_of(platform.machine()):
        return f"copies of the program are followed on x86-64 only, not on {platform.machine()}"
    if not is_built():
        return "tlbcost-copies is not built: Zydis was missing (libzydis-dev)"
    return None


def untraceable() -> str | None:
    """Why no program that we start may be traced; None: they may."""
    rights = tracing_rights()
    if rights.traceable != "none":
        return None
    who = "no process may trace a program until the next boot"
    who = who if rights.locked else "only root may trace a program"
    return f"kernel.yama.ptrace_scope is {rights.scope}: {who}"


def copies_tool(plan: CopyPlan, folder: Path) -> Sequence[str]:
    limit = (
        ["--copies", str(plan.copies)]
        if plan.copies is not None
        else ["--overhead", f"{plan.overhead:g}"]
    )
    core = [] if plan.core is None else ["--core", plan.core]
    return [
        _TOOL,
        "--out",
        str(folder),
        *limit,
        "--fault-ns",
        str(plan.fault_ns),
        "--cycle-ps",
        str(round(1000 / plan.cycles_per_ns)),
        *(word for option in level_options(plan.geometry) for word in option),
        *core,
    ]


def arms_tool(
    folder: Path,
    copies: int,
    expected_cpu_ns: int,
    recorded_calls: int = 0,
    until_s: float | None = None,
    also: Sequence[Also] = (),
) -> Sequence[str]:
    """The same to have arms of N copies, spread over this CPU time, do its work natively.

    `recorded_calls`: with this many system calls, which are recorded first; 0: between two.
    `until_s`: fewer copies, but enough, if more would take longer than that since the start.
    `also`: what huge pages are for besides anonymous memory.
    """
    return [
        _TOOL,
        "--out",
        str(folder),
        "--arms",
        str(_SLICES),
        "--record",
        str(recorded_calls),
        "--copies",
        str(copies),
        "--expected-cpu-ns",
        str(expected_cpu_ns),
        *(_ALSO[each] for each in also),
        *([] if until_s is None else ["--until-seconds", str(max(1, round(until_s)))]),
    ]


# Fewer windows than this say nothing of a program.
_FEWEST = 4
# A short program is run again for this many; fewer will do where its gain is measured, and windows
# have only to show which memory it comes from.
_ENOUGH, _ENOUGH_MEASURED = 10, 6


def too_few(tables: CopyTables) -> str | None:
    """Why there are too few windows to estimate from; None: there are enough."""
    timed = tables.windows[tables.windows["base_cycles"].notna()]
    if len(timed) >= _FEWEST:
        return None
    attempts = tables.attempts["result"].value_counts()
    refused = attempts[attempts.index.str.startswith("refused-")]
    if len(refused) and refused.iloc[0] > len(timed):
        return reason_of(str(refused.index[0]))
    if attempts.get("busy", 0) > len(timed):
        return f"{len(timed)} copies could be followed: no CPU was free for more"
    ends = tables.windows["ended"].value_counts()
    windows = "window" if len(timed) == 1 else "windows"
    number = f"{len(timed)} {windows} of copies could be timed, and {_FEWEST} are needed"
    return f"{number} (most were ended by: {ends.index[0]})" if len(ends) else number


def reason_of(result: str) -> str:
    """Why there are no copies, in words: by a result of the table of attempts."""
    return _REASONS.get(result, f"it cannot be copied ({result.removeprefix('refused-')})")


def more_may_do(tables: CopyTables, *, measured: bool) -> bool:
    """There are few windows, and another run could have more. `measured`: the gain will be, too."""
    timed = int(tables.windows["base_cycles"].notna().sum())
    refused = int(tables.attempts["result"].str.startswith("refused-").sum())
    enough = _ENOUGH_MEASURED if measured else _ENOUGH
    return 0 < timed < enough and refused <= timed


_REASONS = {
    "refused-seccomp": "the program has a seccomp filter, which a copy could be killed by",
    "refused-permission": "the program may not be traced",
    "refused-traced": "another program traces it",
    "refused-hugetlb": "its memory is on huge pages of a pool, which copies would use up",
    "refused-huge": "its memory is on huge pages already, which copying would split",
    "refused-memory": "there is too little memory for copies of it",
    "refused-processes": "no more processes may be started",
    "refused-io_uring": "it uses io_uring, whose memory the kernel writes to",
    "refused-userfaultfd": "it uses userfaultfd",
    "refused-32bit": "it is a 32-bit program",
    "refused-stopped": "it is stopped",
    "refused-gone": "its threads end before they can be copied",
    "refused-sleeping": "its threads sleep",
    "refused-busy": "its threads did not stop in time",
    "refused-clone": "the kernel refused to copy it",
    "refused-instruction": "it has no system call instruction in memory that could be used",
}
