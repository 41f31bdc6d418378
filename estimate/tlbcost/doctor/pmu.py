# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be counted here: are there counters, what do they count, and who may read them?"""

from __future__ import annotations

from collections.abc import Sequence

from tlbcost.common.errors import TlbcostError
from tlbcost.counters.count_plan import probe
from tlbcost.counters.event_selection import EventRequest, default_events
from tlbcost.counters.pmu import find_pmu, perf_event_paranoid, user_may_count
from tlbcost.doctor.check import Check, Value
from tlbcost.processors.event_tables import generic_pmu, pmu_of
from tlbcost.processors.events import Event, Pmu
from tlbcost.processors.formulas import names
from tlbcost.system.hints import is_root, write_setting
from tlbcost.system.machine import Machine

_PARANOID = "/proc/sys/kernel/perf_event_paranoid"
# Up to this level every kernel lets users count their own programs.
_PARANOID_USER = 2
_COUNTABLE = ("counted", "multiplexed", "left_over")
# What an estimate can be based on, best first, and its name.
_WITNESSES = {
    "share": "the cycles with a page walk",
    "pending_share": "the cycles of page walks",
    "walks": "page walks",
    "data_walks": "page walks for data",
}


def check_pmu(machine: Machine) -> Check:
    """Counters of hardware events: do they exist, what do they count, how many at once?"""
    found = find_pmu()
    own = pmu_of(machine)
    pmu = own or generic_pmu()
    values: dict[str, Value] = {"pmu": found.answer, "event_table": own.key if own else None}
    if found.answer == "listed":
        finding = f"{found.how}; events of {pmu.name}"
        return Check("pmu", "ok", finding, values=values)
    if found.answer == "absent":
        finding = f"{found.how}; misses are simulated, which needs none"
        return Check("pmu", "missing", finding, values=values)
    if found.answer != "counts":
        return Check("pmu", "limited", f"{found.how}; misses are simulated instead", values=values)
    values["counters"] = pmu.counters
    try:
        events = _countable(pmu)
    except TlbcostError as error:
        return Check("pmu", "limited", f"{found.how}, but {error}", values=values)
    values["countable_events"] = ", ".join(event.name for event in events)
    return _witness(pmu, own is not None, events, values)


def check_paranoid() -> Check:
    """Who may count, by the kernel's setting."""
    name, level = "perf_event_paranoid", perf_event_paranoid()
    values = {"perf_event_paranoid": level}
    if level is None:
        return Check(name, "missing", "this kernel has no performance events", values=values)
    if level <= 0:
        return Check(name, "ok", f"{level}: users may count the whole system", values=values)
    if level <= _PARANOID_USER:
        where = "" if level < _PARANOID_USER else " in user mode"
        finding = f"{level}: users may count their own programs{where}"
        return Check(name, "ok", finding, values=values)
    if is_root():
        return Check(name, "ok", f"{level}: root may count, and you are root", values=values)
    if user_may_count():
        finding = f"{level}: here like 2, users may count their own programs in user mode"
        return Check(name, "ok", finding, values=values)
    command = write_setting(str(_PARANOID_USER), _PARANOID)
    return Check(name, "limited", f"{level}: only root may count", command, values=values)


def _countable(pmu: Pmu) -> list[Event]:
    """Which of the formulas' events can be opened here."""
    events = default_events(pmu)
    requests = [EventRequest.of(event) for event in events]
    opened = {each.event for each in probe(pmu, requests) if each.state in _COUNTABLE}
    return [event for event in events if event.name in opened]


def _witness(pmu: Pmu, is_known: bool, events: Sequence[Event], values: dict[str, Value]) -> Check:
    opened = {event.name for event in events}
    countable = [
        words
        for key, words in _WITNESSES.items()
        if key in pmu.formulas and names(pmu.formulas[key]) <= opened
    ]
    room = "" if pmu.counters is None else f", {pmu.counters} at a time"
    if pmu.fixed:
        room += f" besides {' and '.join(pmu.fixed)}"
    if not countable:
        finding = f"{pmu.name}: counts {len(opened)} events, none of them of page walks"
        return Check("pmu", "limited", f"{finding}; misses are simulated", values=values)
    finding = f"{pmu.name}: counts {countable[0]}; {len(opened)} events{room}"
    if not is_known:
        finding = f"this CPU has no event table; {finding}: what they mean depends on the CPU"
    return Check("pmu", "ok" if is_known else "limited", finding, values=values)
