# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost annotate --json` write of a recording?"""

from __future__ import annotations

from typing import Annotated, Literal

from tlbcost.common import document
from tlbcost.common.document import Part, doc
from tlbcost.counters.diagnosis import Scope
from tlbcost.counters.event_counts import Mode, State
from tlbcost.counters.hits import doubts
from tlbcost.counters.profile import By, Profile, ProfileRow, rows, totals


class ProfileEvent(Part, frozen=True, kw_only=True):
    """An event that was asked for, and what became of it."""

    event: Annotated[str, doc("its name")]
    state: Annotated[State, doc("whether it was sampled, or why not, as in doc/format.md")]
    period: Annotated[int | None, doc("events from sample to sample; null: `frequency` is known")]
    frequency: Annotated[int | None, doc("samples a second; null: `period` is known")]
    samples: Annotated[int | None, doc("how many samples there are")]
    estimated: Annotated[int | None, doc("the events that the samples stand for")]
    counted: Annotated[int | None, doc("the events that the counter itself counted")]
    running_fraction: Annotated[float | None, doc("share of the time that it had a counter")]


class ProfileDocument(Part, frozen=True, kw_only=True):
    """Where sampled events of a program happened. null: not obtained."""

    format: Annotated[
        Literal["tlbcost profile 1"], doc("form of this document and its version")
    ] = "tlbcost profile 1"
    by: Annotated[By, doc("what the rows are: objects, symbols or mappings of data")]
    scope: Annotated[Scope, doc("what was sampled")]
    mode: Annotated[Mode, doc("the CPU's modes that were sampled")]
    duration_ns: Annotated[int, doc("how long it was sampled")]
    lost: Annotated[int, doc("records that did not fit into the buffer")]
    throttled: Annotated[int, doc("how often the kernel paused the sampling")]
    events: Annotated[list[ProfileEvent], doc("the events that were asked for")]
    rows: Annotated[list[ProfileRow], doc("the places with the most events of the first kind")]
    notes: Annotated[tuple[str, ...], doc("what makes the numbers less than exact")]


def to_json(profile: Profile) -> str:
    """The profile as the text of a JSON file."""
    hits = profile.hits
    whole = totals(hits)
    events = []
    for event in hits.events:
        own = whole.get(event.name)
        events.append(
            ProfileEvent(
                event=event.name,
                state=event.state,
                period=event.period,
                frequency=event.frequency,
                samples=None if own is None else own.samples,
                estimated=None if own is None else own.estimated,
                counted=event.count,
                running_fraction=event.running_fraction,
            )
        )
    return document.to_json(
        ProfileDocument(
            by=profile.by,
            scope=hits.scope,
            mode=hits.mode,
            duration_ns=hits.duration_ns,
            lost=hits.lost,
            throttled=hits.throttled,
            events=events,
            rows=rows(hits.hits, profile.symbols, profile.by)[: profile.limit],
            notes=(*doubts(hits), *profile.notes),
        )
    )
