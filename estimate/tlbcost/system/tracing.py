# SPDX-License-Identifier: GPL-2.0-or-later
"""Which processes does the kernel let us trace, and so copy?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tlbcost.system import hints, process
from tlbcost.system.machine import read_number

PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
# linux/capability.h
_CAP_SYS_PTRACE = 19
# The kernel's documentation of Yama: children only, root only, nobody.
_CHILDREN, _ROOT, _NOBODY = 1, 2, 3

Traceable = Literal["all", "own", "launched", "none"]


@dataclass(frozen=True, slots=True)
class TracingRights:
    """What the kernel asks before one process may trace another.

    `scope`: kernel.yama.ptrace_scope; None: this kernel has no Yama. `privileged`: we have
    CAP_SYS_PTRACE. `filtered`: we have a seccomp filter, which what we start inherits.
    """

    scope: int | None
    privileged: bool
    filtered: bool

    @property
    def traceable(self) -> Traceable:
        """All processes; our own; those that we start; or none."""
        scope = self.scope or 0
        if scope >= _NOBODY:
            return "none"
        if self.privileged:
            return "all"
        if scope >= _ROOT:
            return "none"
        return "launched" if scope == _CHILDREN else "own"

    @property
    def locked(self) -> bool:
        return (self.scope or 0) >= _NOBODY


def tracing_rights() -> TracingRights:
    status = process.status(process.below_root("self"))
    privileged = hints.is_root()
    if (effective := status.get("CapEff")) is not None:
        privileged = bool(int(effective, 16) >> _CAP_SYS_PTRACE & 1)
    filtered = status.get("Seccomp", "0") != "0"
    return TracingRights(read_number(PTRACE_SCOPE), privileged, filtered)
