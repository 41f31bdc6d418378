# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost review --json` write? Its keys, each with what it means."""

from __future__ import annotations

from typing import Annotated, Literal

from tlbcost.common.document import Part, doc
from tlbcost.common.interval import Interval
from tlbcost.remedies.remedy import Remedy
from tlbcost.review.deployment import Snippet
from tlbcost.review.plan import Policy

SCHEMA = "tlbcost-review-1"
Decision = Literal["adopt", "blocked", "undecided", "leave", "done", "failed"]


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
    caveats: Annotated[tuple[str, ...], doc("codes of what to know, worst first")]
    command: Annotated[tuple[str, ...], doc("what repeats it")]
    seconds: Annotated[float, doc("how long it took")]


class HostPool(Part, frozen=True, kw_only=True):
    """What the adopted remedies reserve on one host of a type."""

    machine: Annotated[str, doc("the type of host")]
    memory_bytes: Annotated[int | None, doc("of the host; null: the plan does not say")]
    most_bytes: Annotated[int | None, doc("what the policy lets pools take")]
    needed_bytes: Annotated[int, doc("sum of the pools of adopted remedies", minimum=0)]
    left_out: Annotated[tuple[str, ...], doc("services whose pools do not fit")]


class BrokenRule(Part, frozen=True, kw_only=True):
    """One rule of the gate, and who breaks it."""

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
    broken: Annotated[list[BrokenRule], doc("with --gate: rules that are broken")]
