# SPDX-License-Identifier: GPL-2.0-or-later
"""Decisions by the plan's policy, with savings and costs, and the document of `tlbcost review`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from tlbcost.accuracy.record import TrackRecord, track_records
from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.attribution.document import CodeLine, RegionShare
from tlbcost.calibration.file import look_up, read_with_curve
from tlbcost.calibration.records import Extent, Grade, Obtained
from tlbcost.common import names, units
from tlbcost.common.document import Part, amount, doc, now, part_of
from tlbcost.common.paths import version
from tlbcost.common.units import Interval
from tlbcost.machines.document import MachineEstimateDocument
from tlbcost.remedies.advice import AdvicePart
from tlbcost.remedies.remedy import Remedy
from tlbcost.report.regions import split, worth_a_line
from tlbcost.review.deployment import Snippet, snippets
from tlbcost.review.plan import MachineType, Plan, Policy, Service, share, size, time_s
from tlbcost.review.task import TaskResult
from tlbcost.system.machine import Machine

SCHEMA = "tlbcost-review-1"
Decision = Literal["adopt", "blocked", "undecided", "leave", "done", "failed"]


class RowCaveat(Part, frozen=True, kw_only=True):
    """What to know before a decision is relied on."""

    code: Annotated[str, doc("as in doc/caveats.md")]
    sentence: Annotated[str, doc("what is so")]
    remedy: Annotated[str | None, doc("what to do about it; null: nothing")]


class TaskMisses(Part, frozen=True, kw_only=True):
    """Which memory and which code have the page walks; the largest parts of each."""

    source: Annotated[str, doc("what found the misses: simulation, or samples of these events")]
    memory: Annotated[tuple[RegionShare, ...], doc("memory regions, most walks first")]
    code: Annotated[tuple[CodeLine, ...], doc("lines of code, most walks first")]


class ReviewRow(Part, frozen=True, kw_only=True):
    """One service on one type of host; null: not obtained."""

    service: Annotated[str, doc("its name in the plan")]
    machine: Annotated[str, doc("the type of host, by its name in the plan")]
    decision: Annotated[
        Decision,
        doc(
            "adopt: use the remedy; blocked: worth it, but not allowed, or it does not fit; "
            "undecided: the interval is too wide; leave: not worth it; done: on huge pages "
            "already; failed: there is no estimate"
        ),
    ]
    why: Annotated[str, doc("the reason, for people")]
    gain_fraction: Annotated[Interval | None, doc("of the service's CPU time, in all")]
    translation_fraction: Annotated[Interval | None, doc("of that, cheaper TLB misses")]
    fault_fraction: Annotated[Interval | None, doc("of that, fewer page faults")]
    bound_fraction: Annotated[float | None, doc("what all translation costs at most")]
    basis: Annotated[str | None, doc("what the gain comes from")]
    cpu: Annotated[str | None, doc("the CPU that it was obtained on, or modelled for")]
    calibrated: Annotated[str | None, doc("date of the calibration: UTC, ISO 8601")]
    memory_bytes: Annotated[int | None, doc("that one instance touched")]
    growth_bytes: Annotated[int | None, doc("what one instance grows by on huge pages")]
    growth_fraction: Annotated[float | None, doc("the same as a share of its memory")]
    pool_bytes: Annotated[int | None, doc("of a host's pool, what its instances need")]
    hosts_saved: Annotated[
        Interval | None,
        doc("hosts that its gain frees; null: not worth it, or the plan does not say"),
    ]
    saved_per_year: Annotated[Interval | None, doc("their price for 8,760 hours")]
    memory_per_year: Annotated[
        float | None, doc("price of what all its instances grow by; null: the plan has none")
    ] = None
    currency: Annotated[str | None, doc("of both prices")]
    regions: Annotated[tuple[str, ...], doc("memory that the remedy is for")]
    remedy: Annotated[Remedy | None, doc("what to deploy; null: nothing")]
    deployment: Annotated[
        tuple[Snippet, ...], doc("lines that put the remedy into effect where a service runs")
    ]
    misses: Annotated[
        TaskMisses | None, doc("memory and code with the page walks; null: not attributed")
    ] = None
    caveats: Annotated[tuple[RowCaveat, ...], doc("what to know, worst first")]
    command: Annotated[tuple[str, ...], doc("what repeats it")]
    shell_line: Annotated[
        str | None, doc("the same as one line of a shell: its folder, its variables, its input")
    ] = None
    estimated_by: Annotated[str | None, doc("the version of tlbcost that made the estimate")] = None
    seconds: Annotated[float, doc("how long it took")]


class MachineCalibration(Part, frozen=True, kw_only=True):
    """The calibration that estimates for a type of host used."""

    source: Annotated[str, doc("cached, measured, or from which file")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    extent: Annotated[Extent | None, doc("null: only its date is known")]
    grade: Annotated[Grade, doc("whether estimates may rely on it")]
    grade_reasons: Annotated[tuple[str, ...], doc("why it is poor")]


class ReviewMachine(Part, frozen=True, kw_only=True):
    """One type of host: what the plan says of it, and what estimates for it rest on."""

    name: Annotated[str, doc("its name in the plan")]
    hosts: Annotated[int | None, doc("how many there are; null: the plan does not say")]
    core: Annotated[str | None, doc("published core whose figures were used; null: none")]
    host: Annotated[Machine | None, doc("the machine of the estimates; null: not known")]
    calibration: Annotated[
        MachineCalibration | None, doc("null: there is none, or estimates used several")
    ]
    accuracy: Annotated[
        dict[str, TrackRecord],
        doc("how far off estimates were on this CPU, by what the gain comes from"),
    ]


class HostPool(Part, frozen=True, kw_only=True):
    """What the adopted remedies reserve on one host of a type."""

    machine: Annotated[str, doc("the type of host")]
    memory_bytes: Annotated[int | None, doc("of the host; null: the plan does not say")]
    most_bytes: Annotated[int | None, doc("what the policy lets pools take")]
    needed_bytes: Annotated[int, amount("sum of the pools of adopted remedies")]
    left_out: Annotated[tuple[str, ...], doc("services whose pools do not fit")]


class BrokenRule(Part, frozen=True, kw_only=True):
    """One rule of the gate, and which services break it."""

    rule: Annotated[str, doc("its key in policy.gate, or baseline")]
    service: Annotated[str, doc("its name in the plan")]
    machine: Annotated[str, doc("the type of host")]
    why: Annotated[str, doc("the reason, for people")]


class ReviewDocument(Part, frozen=True, kw_only=True):
    """What `tlbcost review --json FILE` writes."""

    schema: Annotated[str, doc("form of this document and its version", const=SCHEMA)] = SCHEMA
    tlbcost_version: Annotated[str, doc("the version of tlbcost that made it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    policy: Annotated[Policy, doc("of the plan")]
    rows: Annotated[list[ReviewRow], doc("those to adopt first, then by gain", minItems=1)]
    pools: Annotated[list[HostPool], doc("one for each type of host")]
    machines: Annotated[
        tuple[ReviewMachine, ...], doc("each type of host, as the plan has them")
    ] = ()
    broken: Annotated[list[BrokenRule], doc("with --gate: rules that are broken")]


_HOURS_A_YEAR = 8760
_ORDER: tuple[Decision, ...] = ("adopt", "blocked", "undecided", "leave", "done", "failed")


def review_document(plan: Plan, results: Sequence[TaskResult]) -> ReviewDocument:
    services = {service.name: service for service in plan.services}
    # Another machine's simulation knows no remedy: the service's own estimate here may.
    advice = {r.service: r.estimate.what_to_do for r in results if r.estimate is not None}
    rows = [_row(plan, services[r.service], r, advice.get(r.service, [])) for r in results]
    pools = [_fit(plan, name, rows) for name in plan.machines]
    rows.sort(key=lambda row: (_ORDER.index(row.decision), -_value(row)))
    return ReviewDocument(
        tlbcost_version=version(), date=now(), policy=plan.policy, rows=rows, pools=pools,
        machines=review_machines(plan, results), broken=[],
    )  # fmt: skip


def _value(row: ReviewRow) -> float:
    return row.gain_fraction.value if row.gain_fraction is not None else -1.0


@dataclass(frozen=True, slots=True)
class _Found:
    """What an estimate says of a row, whichever made it; nothing: there is none."""

    gain_fraction: Interval | None = None
    basis: str | None = None
    cpu: str | None = None
    there: bool = False
    translation_fraction: Interval | None = None
    fault_fraction: Interval | None = None
    bound_fraction: float | None = None
    calibrated: str | None = None
    memory_bytes: int | None = None
    growth_bytes: int | None = None
    misses: TaskMisses | None = None
    caveats: tuple[RowCaveat, ...] = ()
    estimated_by: str | None = None
    why: str | None = None


def _of_estimate(document: EstimateDocument, service: Service) -> _Found:
    measured, footprint, machine = document.measured, document.footprint, document.machine
    basis = f"measured in {measured.source}" if measured is not None else "modelled"
    if measured is None and document.counters is not None:
        basis = "counters"
    page = None if machine is None else machine.base_page_bytes
    memory = None
    if footprint is not None and page is not None:
        memory = (footprint.anonymous_pages + footprint.other_pages) * page
    misses, found = None, document.attribution or document.sampled_attribution
    if found is not None and found.memory:
        regions, code = split(found.memory)[0], worth_a_line(found)
        misses = TaskMisses(source=found.source, memory=tuple(regions), code=tuple(code))
    gain, growth = document.total_fraction, None
    if measured is not None:
        growth = None if measured.growth_bytes is None else round(measured.growth_bytes.value)
        if service.kind == "service":
            gain = measured.user_fraction
    return _Found(
        gain_fraction=gain,
        basis=basis,
        cpu=None if machine is None else machine.cpu_name,
        there=document.verdict.code == "already_huge",
        translation_fraction=document.expected_fraction,
        fault_fraction=document.fault_fraction,
        bound_fraction=document.bound_fraction.value,
        calibrated=None if document.calibration is None else document.calibration.date,
        memory_bytes=memory,
        growth_bytes=growth,
        misses=misses,
        caveats=tuple(part_of(RowCaveat, each) for each in document.caveats),
        estimated_by=document.tlbcost_version,
        why=document.not_measured,
    )


def _of_elsewhere(document: MachineEstimateDocument) -> _Found:
    machine = document.machines[0]
    gain = machine.page_sizes[-1].expected_gain_fraction
    return _Found(
        gain_fraction=gain, basis=f"simulated with {machine.costs} figures", cpu=machine.title,
        translation_fraction=gain, why=machine.no_times, estimated_by=document.tlbcost_version,
        caveats=tuple(
            RowCaveat(code=each.code, sentence=each.text, remedy=None) for each in document.caveats
        ),
    )  # fmt: skip


def _row(
    plan: Plan, service: Service, result: TaskResult, advice: Sequence[AdvicePart]
) -> ReviewRow:
    found = _Found()
    if result.estimate is not None:
        found = _of_estimate(result.estimate, service)
    elif result.elsewhere is not None:
        found = _of_elsewhere(result.elsewhere)
    kind = plan.machines[result.machine]
    chosen, regions = next(
        (
            (remedy, tuple(region.name for region in each.regions))
            for each in advice
            for remedy in each.remedies
            if remedy.code not in plan.policy.without
        ),
        (None, ()),
    )
    growth = found.growth_bytes
    if growth is None and chosen is not None:
        growth = chosen.cost.growth_bytes
    memory = found.memory_bytes
    part = None if growth is None or not memory else growth / memory
    decision, why = _decide(plan, result, found, chosen, part, bool(advice))
    saved = money = price = None
    if found.gain_fraction is not None and kind.hosts and service.cpu_share:
        saved = found.gain_fraction.scaled(kind.hosts * share(service.cpu_share, "cpu_share"))
    if kind.price is not None and saved is not None:
        money = saved.scaled(kind.price * _HOURS_A_YEAR)
    if kind.price_per_gib_year is not None and growth is not None and kind.hosts:
        gib = growth * service.instances * kind.hosts / (1 << 30)
        price = gib * kind.price_per_gib_year
    if decision == "adopt" and money is not None and price is not None:
        least = getattr(money, plan.policy.decide_on)
        if price >= least:
            decision = "leave"
            why = f"it saves {kind.currency} {least:,.0f} a year, and its memory costs {price:,.0f}"
    worth = decision in ("adopt", "blocked", "undecided")
    if not worth:
        # What should not be adopted saves nothing.
        saved = money = price = None
    return part_of(
        ReviewRow,
        found,
        service=service.name,
        machine=result.machine,
        decision=decision,
        why=why,
        growth_bytes=growth,
        growth_fraction=part,
        pool_bytes=_pool_bytes(chosen, service),
        hosts_saved=saved,
        saved_per_year=money,
        memory_per_year=price,
        currency=None if money is None and price is None else kind.currency,
        regions=regions,
        remedy=chosen if worth else None,
        deployment=snippets(chosen, service.name, service.instances) if worth and chosen else (),
        command=result.command,
        shell_line=_shell_line(service, result.command),
        seconds=result.seconds,
    )


def _shell_line(service: Service, command: Sequence[str]) -> str:
    words = names.command_line(command)
    if service.redact:
        return words
    if service.command:
        given = [
            f"{name}={names.command_line([value])}" for name, value in service.environment.items()
        ]
        words = " ".join([*given, words])
        if service.stdin is not None:
            words += f" <{names.command_line([service.stdin])}"
    if service.folder is None:
        return words
    return f"cd {names.command_line([service.folder])} && {words}"


def _pool_bytes(remedy: Remedy | None, service: Service) -> int | None:
    if remedy is None or remedy.cost.pool_pages is None or remedy.cost.pool_page_bytes is None:
        return None
    return remedy.cost.pool_pages * remedy.cost.pool_page_bytes * service.instances


def _decide(
    plan: Plan,
    result: TaskResult,
    found: _Found,
    chosen: Remedy | None,
    growth: float | None,
    advised: bool,
) -> tuple[Decision, str]:
    policy = plan.policy
    if found.gain_fraction is None:
        return "failed", result.failure or found.why or "there is no gain in the result"
    if found.there:
        return "done", "it is on huge pages already"
    gain, least = found.gain_fraction, share(policy.least_gain, "policy.least_gain")
    if gain.high < least:
        return "leave", f"{units.percent(gain.high)} at most, and {policy.least_gain} is wanted"
    end = getattr(gain, policy.decide_on)
    if end < least:
        return "undecided", f"{units.range_of(gain)}: {policy.least_gain} is within the interval"
    if chosen is None:
        why = "no remedy of the policy serves it" if advised else "no remedy is known for it"
        return "blocked", why
    if growth is not None and growth > share(policy.most_growth, "policy.most_growth"):
        return "blocked", f"its memory grows by {units.percent(growth)}"
    stalls = None if result.estimate is None else result.estimate.stalls
    huge = None if stalls is None else stalls.huge_faults or stalls.huge
    if policy.most_stall is not None and huge is not None and not chosen.cost.pool_pages:
        limit_ns = 1e9 * time_s(policy.most_stall, "policy.most_stall")
        if huge.p999_ns > limit_ns:
            why = f"one in 1000 first touches of huge pages took {units.time(huge.p999_ns)} there"
            return "blocked", why
    return "adopt", chosen.words


def _fit(plan: Plan, name: str, rows: list[ReviewRow]) -> HostPool:
    """Which pools fit into a host; `rows` of those that do not become blocked."""
    kind = plan.machines[name]
    memory = None if kind.memory is None else size(kind.memory, "memory")
    part = share(plan.policy.most_pool, "policy.most_pool")
    most = None if memory is None else int(memory * part)
    needed, left_out = 0, []
    mine = [i for i, row in enumerate(rows) if row.machine == name and row.decision == "adopt"]
    for i in sorted(mine, key=lambda i: -_value(rows[i])):
        wanted = rows[i].pool_bytes or 0
        if most is not None and needed + wanted > most:
            left_out.append(rows[i].service)
            why = f"its pool of {units.size(wanted)} does not fit: {units.size(most - needed)} left"
            rows[i] = msgspec.structs.replace(rows[i], decision="blocked", why=why)
        else:
            needed += wanted
    return HostPool(
        machine=name, memory_bytes=memory, most_bytes=most, needed_bytes=needed,
        left_out=tuple(left_out),
    )  # fmt: skip


def review_machines(plan: Plan, results: Sequence[TaskResult]) -> tuple[ReviewMachine, ...]:
    """Each type of host of the plan. Raises TlbcostError: a calibration cannot be read any more."""
    return tuple(
        _machine(name, kind, [r.estimate for r in results if r.machine == name and r.estimate])
        for name, kind in plan.machines.items()
    )


def calibrations(plan: Plan, review: ReviewDocument) -> dict[str, Obtained]:
    """Calibrations and curves by type of host; a cached one counts only if it has the same date."""
    found = {}
    for machine in review.machines:
        file, used = plan.machines[machine.name].calibration, machine.calibration
        cached = read_with_curve(Path(file)) if file is not None else look_up()[0]
        if cached is not None and used is not None and cached.calibration.date == used.date:
            found[machine.name] = cached
    return found


def _machine(name: str, kind: MachineType, estimates: Sequence[EstimateDocument]) -> ReviewMachine:
    calibration, host = _calibration(kind, estimates)
    return ReviewMachine(
        name=name, hosts=kind.hosts, core=kind.core, host=host, calibration=calibration,
        accuracy=_accuracy(host, estimates),
    )  # fmt: skip


def _calibration(
    kind: MachineType, estimates: Sequence[EstimateDocument]
) -> tuple[MachineCalibration | None, Machine | None]:
    """The calibration of the plan, else the one that all estimates used; and its machine."""
    if kind.calibration is not None:
        obtained = read_with_curve(Path(kind.calibration))
        calibration = obtained.calibration
        known = part_of(MachineCalibration, calibration, source=obtained.source)
        return known, calibration.machine
    used = {each.calibration.date: each.calibration for each in estimates if each.calibration}
    hosts = [each.machine for each in estimates if each.machine is not None]
    cpus = {(each.cpu_vendor, each.cpu_family, each.cpu_model, each.cpu_stepping) for each in hosts}
    host = None
    if len(cpus) == 1:
        host = Machine(**{name: getattr(hosts[0], name) for name in Machine.__dataclass_fields__})
    if len(used) != 1:
        return None, host
    return part_of(MachineCalibration, *used.values(), extent=None), host


def _accuracy(
    host: Machine | None, estimates: Sequence[EstimateDocument]
) -> dict[str, TrackRecord]:
    """The record of this CPU by each way; without one, what the estimates quote."""
    if host is not None:
        return {str(way): record for way, record in track_records(host).items()}
    quoted = [each.tried for each in estimates if each.tried is not None]
    return {"estimate": quoted[0]} if quoted else {}
