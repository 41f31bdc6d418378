# SPDX-License-Identifier: GPL-2.0-or-later
"""Which way are misses counted here: hardware counters, simulation or both?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tlbcost.answer.request import AskedBackend
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.counters.count_plan import probe
from tlbcost.counters.diagnosis import Refusal, diagnose
from tlbcost.counters.event_selection import EventRequest, default_events
from tlbcost.counters.pmu import find_pmu
from tlbcost.processors.event_tables import generic_pmu, pmu_of
from tlbcost.processors.events import Event, Pmu
from tlbcost.system.machine import Machine

# Any of these formulas, with all its events, bounds the time in translation.
_WITH_CYCLES = ("share", "pending_share")
_WITH_COSTS = ("walks", "data_walks")
# What an estimate is made of: few enough to be counted in each run, whose spread is then seen.
_OF_CYCLES = ("share", "data_share", "code_share", "exposed_share", "ept_share")
_OF_WALKS = (
    "pending_share", "walks", "data_walks", "code_walks", "hits", "data_hits",
    "exposed_share", "ept_share",
)  # fmt: skip
_TO_COMPARE = ("walks", "data_walks", "code_walks")
_OPENED = ("counted", "multiplexed", "left_over")


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do, and what the user should know of the reasons (`notes`).

    `pmu` is None where nothing is counted. `needs_costs`: the counters tell walks, but not their
    cycles, so that the calibration has to price them.
    """

    simulate: bool
    pmu: Pmu | None = None
    events: tuple[Event, ...] = ()
    needs_costs: bool = False
    notes: tuple[str, ...] = ()


def choose(asked: AskedBackend, machine: Machine) -> Choice:
    """Look at the counters unless only a simulation is asked for.

    `auto` falls back to the simulation; why is in the notes, unless there just are no counters.
    Raises TlbcostError with exit code 4 if counters are asked for and cannot be read.
    """
    if asked == "sim" or (asked == "auto" and find_pmu().answer == "absent"):
        return Choice(simulate=True)
    try:
        counting = _counting(machine, compare=asked == "both")
    except TlbcostError as error:
        if asked != "auto" or error.exit_code != CANNOT_MEASURE:
            raise
        return Choice(simulate=True, notes=(f"simulated, since counters cannot be read: {error}",))
    return Choice(asked == "both", *counting)


def _counting(
    machine: Machine, *, compare: bool
) -> tuple[Pmu, tuple[Event, ...], bool, tuple[str, ...]]:
    """The table, the events, whether walks need a price, and notes."""
    own = pmu_of(machine)
    pmu = own or generic_pmu()
    formulas = _OF_CYCLES if "share" in pmu.formulas else _OF_WALKS
    events = default_events(pmu, (*formulas, *(_TO_COMPARE if compare else ())))
    refusals = probe(pmu, [EventRequest.of(event) for event in events])
    opened = {refusal.event for refusal in refusals if refusal.state in _OPENED}
    with_cycles = _has(pmu, opened, _WITH_CYCLES)
    if "cycles" not in opened or not (with_cycles or _has(pmu, opened, _WITH_COSTS)):
        raise _nothing(refusals, opened)
    notes: tuple[str, ...] = ()
    if own is None:
        notes = (
            "this CPU has no event table: the kernel's generic events are counted, whose meaning "
            "depends on the CPU",
        )
    return pmu, tuple(event for event in events if event.name in opened), not with_cycles, notes


def _has(pmu: Pmu, opened: set[str], formulas: Sequence[str]) -> bool:
    from tlbcost.processors.formulas import names

    return any(name in pmu.formulas and names(pmu.formulas[name]) <= opened for name in formulas)


def _nothing(refusals: Sequence[Refusal], opened: set[str]) -> TlbcostError:
    refused = [refusal for refusal in refusals if refusal.event not in opened]
    if "cycles" in opened and all(refusal.state == "unsupported" for refusal in refused):
        return TlbcostError(
            "this machine's counters count no page walks and no TLB misses",
            "--backend sim counts without them",
            CANNOT_MEASURE,
        )
    return diagnose(refused, "program", "user")
