# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost review --counts --json` write? Its keys, each with what it means."""

from __future__ import annotations

from typing import Annotated, Literal

from tlbcost.common.document import Part, doc
from tlbcost.model.gain import Way
from tlbcost.review.plan import Policy

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
    hosts: Annotated[int, doc("of how many hosts", minimum=0)]
    examples: Annotated[tuple[str, ...], doc("some of those hosts")]


class FleetDocument(Part, frozen=True, kw_only=True):
    """What `tlbcost review --counts FILES --json FILE` writes."""

    schema: Annotated[str, doc("form of this document and its version", const=SCHEMA)] = SCHEMA
    tlbcost_version: Annotated[str, doc("the version of tlbcost that made it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    policy: Annotated[Policy, doc("of the plan, else the usual one")]
    files: Annotated[int, doc("how many were read", minimum=1)]
    rows_read: Annotated[int, doc("rows in them", minimum=0)]
    rows_used: Annotated[int, doc("of those: rows that the estimates are made of", minimum=0)]
    hosts: Annotated[int, doc("hosts in the files", minimum=0)]
    rows: Annotated[list[FleetRow], doc("services, those with most hosts that gain first")]
    left_out: Annotated[list[LeftOut], doc("all other rows, by reason: most first")]
