# SPDX-License-Identifier: GPL-2.0-or-later
"""What does one type so that `perf stat` counts what an estimate needs?"""

from __future__ import annotations

from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.counters.event_selection import default_events
from tlbcost.processors.events import Event, Pmu

# The formulas that an estimate can be made of, the best first; one is enough.
_ENOUGH = (("share",), ("pending_share",), ("walks", "hits"), ("data_walks", "data_hits"))
_CORE_TYPES = ("raw", "hardware", "cache")
# Events that every kernel has a name for, as perf spells it; perf's name of a code is the code.
_NAMES = {
    "cycles": "cycles",
    "instructions": "instructions",
    "dtlb_load_misses": "dTLB-load-misses",
    "dtlb_store_misses": "dTLB-store-misses",
    "itlb_misses": "iTLB-load-misses",
}
_OUTPUT = "counts.txt"


def needed_events(pmu: Pmu) -> tuple[Event, ...]:
    """Cycles, instructions, and what the best estimate by this CPU's counters needs.

    Raises TlbcostError with exit code 4 if it counts nothing that an estimate can be made of.
    """
    formulas = next((some for some in _ENOUGH if some[0] in pmu.formulas), None)
    if formulas is None:
        raise TlbcostError(
            f"{pmu.name} counts neither page walks nor the cycles in them",
            "'tlbcost estimate -- COMMAND' simulates the program on such a machine",
            CANNOT_MEASURE,
        )
    return default_events(pmu, formulas)


def perf_stat(pmu: Pmu, command: str = "COMMAND") -> str:
    """The command line, in one line; it leaves what `estimate --from` reads in counts.txt.

    In user mode, where the estimate's model applies. Raises TlbcostError as needed_events().
    """
    events = ",".join(perf_name(event) for event in needed_events(pmu))
    return f"perf stat -o {_OUTPUT} -e {events} -- {command}"


def estimate_from(pmu: Pmu) -> str:
    """The command line that makes an estimate of what perf_stat() has counted."""
    return f"tlbcost estimate --from {_OUTPUT} --cpu {pmu.aliases[0] if pmu.aliases else pmu.key}"


def perf_name(event: Event) -> str:
    """An event of the core, counted in user mode, as perf takes it whatever lists it has."""
    name = _NAMES.get(event.role) if event.type in _CORE_TYPES else None
    if event.role in ("cycles", "instructions") and name is None:
        return f"{event.type}/{event.role}/u"
    if name is not None and (event.type != "raw" or event.access is None):
        return f"{name}:u"
    assert event.code is not None, "an event of a formula has a code"
    if event.type == "raw" and event.config1 is None:
        return f"r{event.code:x}:u"
    source = "cpu" if event.type == "raw" else event.type
    config1 = "" if event.config1 is None else f",config1={event.config1:#x}"
    return f"{source}/config={event.code:#x}{config1}/u"
