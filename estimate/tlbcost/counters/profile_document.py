# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON of `tlbcost annotate` for a recording."""

from __future__ import annotations

from typing import Annotated, Literal

from tlbcost.common import document
from tlbcost.common.document import Part, doc
from tlbcost.counters.profile import By, EventSamples, Profile, ProfileRow, rows, totals
from tlbcost.counters.samples import doubts


class ProfileDocument(Part, frozen=True, kw_only=True):
    """Where sampled events of a program happened. null: not obtained."""

    format: Annotated[
        Literal["tlbcost profile 2"], doc("form of this document and its version")
    ] = "tlbcost profile 2"
    by: Annotated[By, doc("what the rows are: objects, symbols or mappings of data")]
    lost: Annotated[int, doc("records that did not fit into the buffer")]
    events: Annotated[dict[str, EventSamples], doc("all samples of each event")]
    rows: Annotated[list[ProfileRow], doc("the places with the most events of the first kind")]
    notes: Annotated[tuple[str, ...], doc("what makes the numbers less than exact")]


def to_json(profile: Profile) -> str:
    """The profile as the text of a JSON file."""
    hits = profile.hits
    return document.to_json(
        ProfileDocument(
            by=profile.by,
            lost=hits.lost,
            events=totals(hits),
            rows=rows(hits.hits, profile.by)[: profile.limit],
            notes=(*doubts(hits), *profile.notes),
        )
    )
