# SPDX-License-Identifier: GPL-2.0-or-later
"""The document of `tlbcost review --json`, and the meaning of its keys."""

from __future__ import annotations

from typing import Annotated, Literal

from tlbcost.accuracy.record import TrackRecord
from tlbcost.attribution.document import CodeLine, RegionShare
from tlbcost.calibration.records import Extent, Grade
from tlbcost.common.document import Part, doc
from tlbcost.common.interval import Interval
from tlbcost.remedies.remedy import Remedy
from tlbcost.review.deployment import Snippet
from tlbcost.review.plan import Policy
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
    currency: Annotated[str | None, doc("of saved_per_year")]
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
    needed_bytes: Annotated[int, doc("sum of the pools of adopted remedies", minimum=0)]
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
