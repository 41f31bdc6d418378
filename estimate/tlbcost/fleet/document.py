# SPDX-License-Identifier: GPL-2.0-or-later
"""What huge pages would save a service on each host, and the review as JSON.

By the functions that estimate one file of counts (`tlbcost estimate --from`): what they refuse is
left out here, with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tlbcost.answer.estimate import of_counts
from tlbcost.answer.gains import Costs, by_counters, costs_of, footprint_of
from tlbcost.answer.record import Evidence
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common import units
from tlbcost.common.document import Part, amount, doc
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.progress import Progress
from tlbcost.common.units import Interval
from tlbcost.counters.count_tool import only_of_code
from tlbcost.counters.event_counts import EventCounts
from tlbcost.counters.importing.printed_counts import (
    DURATIONS,
    FileFacts,
    PrintedCount,
    add_up,
    meaning,
)
from tlbcost.fleet.perf_log import KEYS, NUMBERS, STATES, WHY
from tlbcost.model.gain import Way
from tlbcost.processors.events import Pmu, all_pmus, load_pmu, named, pmu_of
from tlbcost.processors.events import names as names_in
from tlbcost.review.plan import MachineType, Plan, Policy
from tlbcost.system.machine import current_machine

if TYPE_CHECKING:
    import pandas as pd


# As perf report --header prints it: vendor, family, model, stepping.
_CPUID = re.compile(r"(\w+),(\d+),(\d+),(\d+)", re.ASCII)


def cpu_named(text: str) -> Pmu:
    """Events by a name of `tlbcost events --list`, or by perf's cpuid. Raises TlbcostError."""
    found = _CPUID.fullmatch(text.strip())
    if found is None:
        return named(text.strip())
    vendor, family, model, stepping = found.groups()
    machine = replace(
        current_machine(), cpu_vendor=vendor, cpu_family=family, cpu_model=model,
        cpu_stepping=stepping,
    )  # fmt: skip
    pmu = pmu_of(machine)
    if pmu is None:
        raise TlbcostError(f"no event table is of the CPU {text}", "'tlbcost events --list'", USAGE)
    return pmu


@dataclass(frozen=True, slots=True)
class Machines:
    """What the plan says of CPUs, by the key of their events; empty without a plan."""

    names: dict[str, str] = field(default_factory=dict)
    calibrated: dict[str, Obtained] = field(default_factory=dict)
    _costs: dict[str, Costs | None] = field(default_factory=dict)

    def costs(self, pmu: Pmu, given: Evidence) -> Costs | None:
        """What walks cost there; None: there is no calibration of such a CPU."""
        if pmu.key not in self._costs:
            self._costs[pmu.key] = costs_of(given, footprint_of(given, ()), ())
        return self._costs[pmu.key]


def machines_of(plan: Plan | None) -> Machines:
    """Machines by CPU. Raises TlbcostError (usage) for bad calibrations, and two of one CPU."""
    found = Machines()
    for name, kind in {} if plan is None else plan.machines.items():
        key, obtained = _cpu_of(name, kind)
        if key is None:
            continue
        if key in found.names:
            other = found.names[key]
            raise TlbcostError(
                f"plan: machines.{name}: its CPU is that of machines.{other}, and counts name "
                "the CPU alone",
                "leave one of them out of a plan for --counts",
                USAGE,
            )
        found.names[key] = name
        if obtained is not None:
            found.calibrated[key] = obtained
    return found


def _cpu_of(name: str, kind: MachineType) -> tuple[str | None, Obtained | None]:
    if kind.core is not None:
        # Cores and events are called alike.
        return (kind.core if kind.core in {pmu.key for pmu in all_pmus()} else None), None
    if kind.calibration is None:
        return None, None
    try:
        calibration = read_calibration(Path(kind.calibration))
    except TlbcostError as error:
        hint = "tlbcost calibrate --output FILE, on such a host, writes one"
        raise TlbcostError(f"plan: machines.{name}.calibration: {error}", hint, USAGE) from error
    pmu = pmu_of(calibration.machine)
    return (None if pmu is None else pmu.key), Obtained(calibration, f"from {kind.calibration}")


SCHEMA = "tlbcost-fleet-1"
Reason = Literal[
    "nameless", "not_counted", "impossible", "multiplexed", "mixed_cpus", "unknown_cpu",
    "unknown_event", "uneven", "mixed_modes", "idle", "missing_events", "no_costs",
]  # fmt: skip


class Quantiles(Part, frozen=True, kw_only=True):
    """How a figure is distributed over hosts: a tenth, a quarter... of them have less."""

    p10: Annotated[float, doc("a tenth of the hosts have less")]
    p25: Annotated[float, doc("a quarter")]
    p50: Annotated[float, doc("the median host")]
    p75: Annotated[float, doc("a quarter have more")]
    p90: Annotated[float, doc("a tenth have more")]


class FleetRow(Part, frozen=True, kw_only=True):
    """One service on one type of machine, over its hosts."""

    service: Annotated[str, doc("as in the table")]
    machine: Annotated[str, doc("its name in the plan, else that of its events")]
    cpu: Annotated[str, doc("the event table of its CPU (tlbcost events --list)")]
    basis: Annotated[Way, doc("how the walk share was obtained")]
    without: Annotated[
        tuple[str, ...], doc("events of code that were not counted: the walk share lacks them")
    ]
    hosts: Annotated[int, doc("hosts with an estimate", minimum=1)]
    hosts_gaining: Annotated[
        int, doc("of those: the gain is the policy's least or more, at the end it decides on")
    ]
    hosts_gaining_low: Annotated[int, doc("the same at the lower end of the gain's interval")]
    hosts_gaining_value: Annotated[int, doc("the same at its value")]
    hosts_gaining_high: Annotated[int, doc("the same at its upper end")]
    share_fraction: Annotated[Quantiles, doc("of the cycles counted: with a page walk")]
    bound_fraction: Annotated[Quantiles, doc("what all translation costs at most")]
    gain_fraction: Annotated[Quantiles, doc("expected from cheaper TLB misses")]
    gain_low_fraction: Annotated[Quantiles, doc("lower ends of the gain's intervals")]
    gain_high_fraction: Annotated[Quantiles, doc("upper ends of the gain's intervals")]


class LeftOut(Part, frozen=True, kw_only=True):
    """Rows that no figure above is made of."""

    reason: Annotated[Reason, doc("what is wrong with them, for programs")]
    why: Annotated[str, doc("the same, for people")]
    service: Annotated[str | None, doc("whose they are; null: of any")]
    cpu: Annotated[str | None, doc("its CPU, as in the table or known; null: of any")]
    event: Annotated[str | None, doc("the event; null: all")]
    rows: Annotated[int, doc("how many", minimum=1)]
    hosts: Annotated[int, amount("of how many hosts")]
    examples: Annotated[tuple[str, ...], doc("some of those hosts")]


class FleetDocument(Part, frozen=True, kw_only=True):
    """What `tlbcost review --counts FILES --json FILE` writes."""

    schema: Annotated[str, doc("form of this document and its version", const=SCHEMA)] = SCHEMA
    tlbcost_version: Annotated[str, doc("the version of tlbcost that made it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    policy: Annotated[Policy, doc("of the plan, else the usual one")]
    files: Annotated[int, doc("how many were read", minimum=1)]
    rows_read: Annotated[int, amount("rows in them")]
    rows_used: Annotated[int, amount("of those: rows that the estimates are made of")]
    hosts: Annotated[int, amount("hosts in the files")]
    rows: Annotated[list[FleetRow], doc("services, those with most hosts that gain first")]
    left_out: Annotated[list[LeftOut], doc("all other rows, by reason: most first")]


# An event that was counted for a smaller part of the time is not compared with the others.
_LEAST_TIME = 0.9
# Counters are not read at one instant.
_SKEW = 1.01
_PART_OF_CYCLES = ("_active_cycles", "_stall_cycles")


@dataclass(frozen=True, slots=True)
class HostEstimate:
    """One service on one host; `without`: events of code that were not counted."""

    host: str
    service: str
    machine: str
    cpu: str
    way: Way
    without: tuple[str, ...]
    seconds: float
    share_fraction: float
    bound_fraction: float
    gain: Interval
    rows: int


@dataclass(frozen=True, slots=True)
class Omitted:
    """Rows of one host that no estimate is made of."""

    reason: Reason
    why: str
    host: str
    service: str | None
    cpu: str | None
    event: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the sums, in the order of _COLUMNS."""

    host: str
    service: str
    cpu: str
    event: str
    state: int
    value: float
    seconds: float
    rows: int


_COLUMNS = (*KEYS, "state", *NUMBERS, "rows")


@dataclass(slots=True)
class _Sum:
    """What one event came to on one host for one service."""

    event: str
    value: float
    seconds: float
    rows: int


class _RefusedError(Exception):
    """Why there is no estimate."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


def estimate_hosts(
    table: pd.DataFrame, machines: Machines
) -> tuple[list[HostEstimate], list[Omitted]]:
    """An estimate of each host and service that allows one; every other row is among the rest."""
    omitted: list[Omitted] = []
    rows = [_Row(*row) for row in table[list(_COLUMNS)].itertuples(index=False, name=None)]
    # A CPU may have been named in two ways.
    services: dict[tuple[str, str, str], dict[str, _Sum]] = {}
    for row in _with_known_cpus(rows, omitted):
        sums = services.setdefault((row.host, row.service, row.cpu), {})
        added = sums.setdefault(row.event, _Sum(row.event, 0.0, 0.0, 0))
        added.value += row.value
        added.seconds += row.seconds
        added.rows += row.rows
    found = []
    with Progress("estimates of hosts") as progress:
        for done, ((host, service, key), sums) in enumerate(sorted(services.items())):
            progress.part(done, len(services))
            own = _Service(host, service, load_pmu(key), omitted)
            kept = own.even(own.known([sums[event] for event in sorted(sums)]))
            if not kept:
                continue
            try:
                found.append(_estimate(own, kept, machines))
            except _RefusedError as error:
                own.leave_out(error.reason, str(error), None, sum(each.rows for each in kept))
    return found, omitted


def _with_known_cpus(rows: Sequence[_Row], omitted: list[Omitted]) -> list[_Row]:
    """The good rows of hosts with one CPU that is known; its name is the key of its events."""
    keys = {text: _key_of(text) for text in {row.cpu for row in rows} if text}
    cpus: dict[str, set[str]] = {}
    for row in rows:
        if row.host and row.cpu:
            cpus.setdefault(row.host, set()).add(keys[row.cpu][0])
    kept = []
    for row in rows:
        state = STATES[row.state]
        cpu, unknown = keys.get(row.cpu, (row.cpu, None))
        names = (row.host, row.service, cpu)
        if state != "good":
            omitted.append(Omitted(state, WHY[state], *names, row.event, row.rows))
        elif len(cpus[row.host]) > 1:
            why = "the host has rows of several CPUs"
            omitted.append(Omitted("mixed_cpus", why, row.host, row.service, None, None, row.rows))
        elif unknown is not None:
            omitted.append(Omitted("unknown_cpu", unknown, *names, None, row.rows))
        else:
            kept.append(replace(row, cpu=cpu))
    return kept


def _key_of(text: str) -> tuple[str, str | None]:
    try:
        return cpu_named(text).key, None
    except TlbcostError as error:
        return text, f"{error} ({error.hint})"


@dataclass(frozen=True, slots=True)
class _Service:
    """One service on one host, and where what is left out of it goes."""

    host: str
    service: str
    pmu: Pmu
    omitted: list[Omitted]

    def leave_out(self, reason: Reason, why: str, event: str | None, rows: int) -> None:
        self.omitted.append(
            Omitted(reason, why, self.host, self.service, self.pmu.key, event, rows)
        )

    def known(self, sums: Sequence[_Sum]) -> list[_Sum]:
        kept = []
        for each in sums:
            found = meaning(each.event, self.pmu)
            if found.name is None and each.event not in DURATIONS:
                why = found.note or f"nothing that is known of {self.pmu.name}"
                self.leave_out("unknown_event", why, each.event, each.rows)
            else:
                kept.append(each)
        return kept

    def even(self, sums: Sequence[_Sum]) -> list[_Sum]:
        """Keep events counted most of the time, scaled to all of it: each one lacks other rows."""
        whole = max((each.seconds for each in sums), default=0.0)
        kept = []
        for each in sums:
            if each.seconds < _LEAST_TIME * whole:
                why = f"counted in less than {units.percent(_LEAST_TIME)} of the time of others"
                self.leave_out("uneven", why, each.event, each.rows)
            else:
                factor = 1.0 if each.seconds == whole else whole / each.seconds
                kept.append(_Sum(each.event, each.value * factor, whole, each.rows))
        return kept


def _estimate(own: _Service, sums: Sequence[_Sum], machines: Machines) -> HostEstimate:
    """As of one file. Raises _RefusedError."""
    pmu = own.pmu
    counts = [
        PrintedCount(i, each.event, each.value, "ns", "counted") for i, each in enumerate(sums)
    ]
    try:
        counted = add_up(own.host, counts, FileFacts(), pmu)
    except TlbcostError as error:
        raise _RefusedError("mixed_modes", str(error).partition(": ")[2]) from error
    _check(counted, pmu)
    given = of_counts(counted, pmu, machines.calibrated.get(pmu.key))
    try:
        part = by_counters(given, machines.costs(pmu, given), None, None)
    except TlbcostError as error:
        # What the best formula of this CPU needs and was not counted.
        keys = [key for key in ("share", "pending_share", "walks") if key in pmu.formulas]
        missing = keys and names_in(pmu.formulas[keys[0]]) - counted.values().keys()
        reason: Reason = "missing_events" if missing else "no_costs"
        raise _RefusedError(reason, f"{error} ({error.hint})") from error
    assert part is not None, "there are counts"
    seen, gain = part.witness, part.gain
    if not only_of_code(seen.missing):
        raise _RefusedError("missing_events", f"{', '.join(seen.missing)} missing")
    return HostEstimate(
        host=own.host,
        service=own.service,
        machine=machines.names.get(pmu.key, pmu.key),
        cpu=pmu.key,
        way=seen.way,
        without=seen.missing,
        seconds=sums[0].seconds,
        share_fraction=seen.total.value,
        bound_fraction=gain.bound_fraction.value,
        gain=gain.expected_fraction,
        rows=sum(each.rows for each in sums),
    )


def _check(counted: EventCounts, pmu: Pmu) -> None:
    """Raises _RefusedError for counts that cannot be, or of which nothing follows."""
    values = counted.values()
    cycles = values.get("cycles")
    if cycles is None:
        raise _RefusedError("missing_events", "cycles missing")
    if cycles == 0:
        raise _RefusedError("idle", "no cycles were counted")
    for name, value in values.items():
        is_part = name.partition(".")[0].endswith(_PART_OF_CYCLES)
        if is_part and value > _SKEW * cycles:
            raise _RefusedError("impossible", f"more {name} than cycles on {pmu.name}")
