# SPDX-License-Identifier: GPL-2.0-or-later
"""At which figures does the watch act, and why at these? The only place with these numbers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated

from tlbcost.common.document import doc
from tlbcost.numa import carrefour, locality, placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Fractions are 0 to 1. Each can be changed by --threshold NAME=VALUE."""

    act_maptu: Annotated[
        float,
        doc("DRAM accesses per us and node from which it acts, if the source has rates", minimum=0),
    ] = carrefour.ACT_FROM_MAPTU
    split_maptu: Annotated[float, doc("the same, from which it splits", minimum=0)] = (
        carrefour.SPLIT_FROM_MAPTU
    )
    interleave_above: Annotated[
        float, doc("imbalance above which pages are interleaved", minimum=0)
    ] = locality.INTERLEAVE_ABOVE
    migrate_below: Annotated[
        float, doc("local accesses below which pages move to their users", minimum=0)
    ] = carrefour.MIGRATE_BELOW
    split_gain: Annotated[
        float, doc("local accesses that splitting has to add, in points / 100", minimum=0)
    ] = locality.SPLIT_GAIN
    split_intervals: Annotated[float, doc("intervals in a row in which it has to", minimum=1)] = (
        float(carrefour.SPLIT_INTERVALS)
    )
    veto_gain: Annotated[
        float,
        doc("relative gain of local accesses from which moving alone comes first", minimum=0),
    ] = carrefour.VETO_GAIN
    veto_below: Annotated[float, doc("local accesses below which nothing is split", minimum=0)] = (
        carrefour.VETO_BELOW_LAR
    )
    hot: Annotated[float, doc("share of the accesses above which a page is hot", minimum=0)] = (
        placement.HOT_FRACTION
    )
    promote: Annotated[
        float, doc("share of L2 misses by page walks from which pages are promoted", minimum=0)
    ] = carrefour.PROMOTE_FROM
    allocate: Annotated[
        float,
        doc("share of the time in page faults from which huge pages are allocated", minimum=0),
    ] = carrefour.ALLOCATE_FROM
    feedback: Annotated[
        float,
        doc("relative gain of local accesses or balance that an action has to have", minimum=0),
    ] = 0.10
    pause_s: Annotated[
        float, doc("seconds for which what was taken back is not tried again", minimum=0)
    ] = 60.0
    rest_s: Annotated[float, doc("seconds between two moves of one page", minimum=0)] = 10.0
    samples: Annotated[float, doc("accesses that a decision needs at least", minimum=1)] = 200.0
    windows: Annotated[
        float, doc("windows, or thread-seconds of a PMU, that it needs at least", minimum=2)
    ] = 4.0
    evidence_s: Annotated[float, doc("age at which accesses are forgotten", minimum=1)] = 15.0
    overhead: Annotated[
        float, doc("share of the process's CPU time that sampling may cost", minimum=0)
    ] = 0.03


_OF_THE_AUTHORS = (
    "act_maptu", "split_maptu", "interleave_above", "migrate_below", "split_gain",
    "split_intervals", "veto_gain", "veto_below", "hot", "promote", "allocate", "feedback",
)  # fmt: skip
_TEST = "ours: what the test of few samples needs"
SOURCES = {
    **dict.fromkeys(_OF_THE_AUTHORS, "the authors' code, 2013"),
    "pause_s": "ours: the authors' code pauses for 5 s",
    "rest_s": "ours: how often a page may move",
    **dict.fromkeys(("samples", "windows", "evidence_s"), _TEST),
    "overhead": "slides: less than 3 %",
}


def parse(text: str) -> tuple[str, float]:
    """NAME=VALUE, as the type of an option. Raises argparse.ArgumentTypeError."""
    name, _, number = text.partition("=")
    name = name.strip().replace("-", "_")
    if name not in SOURCES:
        known = ", ".join(sorted(SOURCES))
        raise argparse.ArgumentTypeError(f"no threshold is called {name}: there are {known}")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9 or (name in ("samples", "split_intervals") and value < 1):
        raise argparse.ArgumentTypeError(f"not a value of {name}: {number or 'none'}")
    if name == "windows" and value < 2:
        raise argparse.ArgumentTypeError("windows: two are the least that has a spread")
    return name, value


def with_changes(changes: Sequence[tuple[str, float]]) -> Thresholds:
    return replace(Thresholds(), **dict(changes))


def names() -> tuple[str, ...]:
    return tuple(field.name for field in fields(Thresholds))
