# SPDX-License-Identifier: GPL-2.0-or-later
"""Events to count or sample: those asked for, else those that suit this CPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.processors.event_tables import generic_pmu, named, pmu_of, select
from tlbcost.processors.events import Event, Pmu
from tlbcost.processors.formulas import names as names_in
from tlbcost.system.machine import current_machine

CYCLES = "cycles"
# The kernel's own events take no counter.
_SOFTWARE = "software"
# Of these, what is recorded where there are no counters.
SOFTWARE_SAMPLES = ("task_clock_ns", "page_faults")
# Formulas whose events are counted unless others are named, the most telling first.
_DEFAULT_FORMULAS = (
    "share", "pending_share", "data_share", "code_share", "exposed_share", "ept_share",
    "walks", "data_walks", "code_walks", "hits", "data_hits", "walk_cycles",
    "tma_data_share", "tma_code_share",
)  # fmt: skip
# What a miss is called, the nearest to a walk first.
_MISSES = ("walks_completed", "stlb_misses", "dtlb_misses", "dtlb_load_misses")
_PRECISE = ("sample_load_misses", "sample_store_misses")
# Names of data/events are in lower case, with dots; libpfm4's strings have colons or capitals.
_ROLE = re.compile(r"[a-z0-9_]+(\.[a-z]+(\.[0-9]+[KMG])?)?")
# perf's spelling of a code.
_CODE = re.compile(r"r([0-9a-f]{1,16})")
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


@dataclass(frozen=True, slots=True)
class EventRequest:
    """An event to count. `name` is unique among them, and the one in the tool's table.

    `role_name`: the name in data/events, None for one that was given by libpfm4's string or as a
    code. `event` is what it is called in reports, `spec` what tlbcost-count is given.
    """

    name: str
    role_name: str | None
    event: str
    spec: str
    software: bool = False

    @property
    def shown(self) -> str:
        return self.role_name or self.event

    @staticmethod
    def of(event: Event) -> EventRequest:
        shown = event.string or f"{event.type}:{event.code}"
        return EventRequest(event.name, event.name, shown, event.spec(), event.type == _SOFTWARE)


def choose_pmu(name: str | None) -> tuple[Pmu, tuple[str, ...]]:
    """The event table of this CPU or of `name`, and notes on it. Raises TlbcostError (usage)."""
    own = pmu_of(current_machine())
    if name is not None:
        pmu = named(name)
        if own is None or pmu.key in (own.key, generic_pmu().key):
            return pmu, ()
        return pmu, (
            f"this CPU is not one of {pmu.name}, whose codes were counted: they may mean something "
            "else here",
        )
    if own is not None:
        return own, ()
    return generic_pmu(), (
        "this CPU has no event table: the kernel's generic events were counted, whose meaning "
        "depends on the CPU",
    )


def choose_events(pmu: Pmu, names: Sequence[str]) -> tuple[EventRequest, ...]:
    """The events of these names, in this order; of none: what the formulas need.

    A name is one of data/events, a libpfm4 string, or a code as `r1001008`. Cycles come first
    where there are several events, since they show whether several runs were alike. Raises
    TlbcostError (usage) for a name that cannot be any of these.
    """
    if not names:
        return tuple(EventRequest.of(event) for event in default_events(pmu))
    wanted: dict[str, EventRequest] = {}
    for name in names:
        found = _named(pmu, name.strip(), len(wanted))
        for each in found:
            wanted.setdefault(each.role_name or each.event, each)
    chosen = list(wanted.values())
    if sum(not each.software for each in chosen) > 1 and not any(
        each.role_name == CYCLES for each in chosen
    ):
        chosen[:0] = [EventRequest.of(event) for event in pmu.events if event.name == CYCLES]
    return tuple(chosen)


def _named(pmu: Pmu, name: str, number: int) -> list[EventRequest]:
    code = _CODE.fullmatch(name)
    if code:
        return [EventRequest(f"event_{number}", None, name, f"code:raw:0x{code[1]}")]
    if _ROLE.fullmatch(name):
        return [EventRequest.of(event) for event in select(pmu, [name])]
    if not re.fullmatch(r"[!-~]+", name) or "|" in name:
        raise TlbcostError(
            f"not an event: '{name}'",
            "'tlbcost events' lists the names; libpfm4's strings work too",
            USAGE,
        )
    software = [event.string for event in generic_pmu().events if event.type == _SOFTWARE]
    return [EventRequest(f"event_{number}", None, name, name, name in software)]


def default_events(pmu: Pmu, formulas: Sequence[str] = _DEFAULT_FORMULAS) -> tuple[Event, ...]:
    """Cycles, instructions, and what these formulas of this CPU need.

    Those of one formula follow each other, so that they tend to be counted in one run.
    """
    needed = [
        {CYCLES, "instructions"},
        *(names_in(pmu.formulas[name]) for name in formulas if name in pmu.formulas),
    ]
    chosen = {event.name: event for some in needed for event in pmu.events if event.name in some}
    return tuple(chosen.values())


def default_sample_names(pmu: Pmu, *, addresses: bool) -> list[str]:
    """Cycles and data misses of this CPU; with `addresses`, those whose samples have one."""
    roles = [_PRECISE] if addresses else []
    for some in (*roles, *((role,) for role in _MISSES)):
        found = [
            event.name
            for event in pmu.events
            if event.role in some and event.page_size_bytes is None and event.access != "fetch"
        ]
        if found:
            # AMD's and Arm's generic events separate loads from stores where they can.
            stores = [e.name for e in pmu.events if e.name == "dtlb_store_misses"]
            return ["cycles", *found, *(stores if found == ["dtlb_load_misses"] else [])]
    return ["cycles"]


def addressed(pmu: Pmu) -> tuple[Event, ...]:
    """Events of data that missed the TLBs whose samples have the data's address."""
    return tuple(event for event in pmu.events if event.role in _PRECISE)


def needed_events(pmu: Pmu) -> tuple[Event, ...]:
    """Events of the best estimate by this CPU's counters. Raises TlbcostError with exit code 4."""
    formulas = next((some for some in _ENOUGH if some[0] in pmu.formulas), None)
    if formulas is None:
        raise TlbcostError(
            f"{pmu.name} counts neither page walks nor the cycles in them",
            "'tlbcost estimate -- COMMAND' simulates the program on such a machine",
            CANNOT_MEASURE,
        )
    return default_events(pmu, formulas)


def perf_stat(pmu: Pmu, command: str = "COMMAND") -> str:
    """The command line that writes counts.txt for `estimate --from`. Raises TlbcostError."""
    events = ",".join(perf_name(event) for event in needed_events(pmu))
    return f"perf stat -o {_OUTPUT} -e {events} -- {command}"


def estimate_from(pmu: Pmu) -> str:
    return f"tlbcost estimate --from {_OUTPUT} --cpu {pmu.aliases[0] if pmu.aliases else pmu.key}"


def perf_name(event: Event) -> str:
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
