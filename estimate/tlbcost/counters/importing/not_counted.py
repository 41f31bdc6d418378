# SPDX-License-Identifier: GPL-2.0-or-later
"""Events that are in a file, but whose counts cannot be used: why, and what to do."""

from __future__ import annotations

from collections.abc import Set

from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.counters.event_counts import EventCounts
from tlbcost.counters.importing.event_names import of_whole_core

_NEVER = (
    "they never had a counter",
    "a group {...} may have more events than the CPU has counters, of which the NMI watchdog takes "
    "one: count without the group, or after 'echo 0 > /proc/sys/kernel/nmi_watchdog'",
)
_NO_COUNTERS = ("no counter there has them", "count on the machine itself, not in a virtual one")


def not_counted(counts: EventCounts, missing: Set[str]) -> TlbcostError | None:
    """The error if some of what is missing was asked for; None: none was."""
    idle = [count for count in counts.counts if count.name is not None and count.value is None]
    any_thread = [count.event for count in counts.counts if of_whole_core(count.event)]
    if any(count.name in missing for count in idle):
        never = [count for count in idle if count.state == "never_ran"]
        why, hint = _NEVER if never else _NO_COUNTERS
        why = f"not counted, since {why}: {', '.join(count.event for count in never or idle)}"
    elif any_thread and "cycles" in missing:
        why = f"{any_thread[0]} counts while either hyperthread of the core runs, not the program"
        hint = "count cycles, too"
    else:
        return None
    return TlbcostError(f"no estimate: {why}", hint, CANNOT_MEASURE)
