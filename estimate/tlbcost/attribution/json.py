# SPDX-License-Identifier: GPL-2.0-or-later
"""Which memory and which lines of code walk, for programs: a part of the report in JSON."""

from __future__ import annotations

from dataclasses import asdict

from tlbcost.attribution.payers import Payer
from tlbcost.attribution.simulated import Attribution
from tlbcost.simulator.memory_tables import ImageAttribution, SourceLocation

Value = dict[str, object]

# Lines of code with fewer walks than these are left out.
MOST_LINES = 100


def to_value(attribution: Attribution | None) -> Value | None:
    """The attribution under keys that carry their units; None: not obtained."""
    if attribution is None:
        return None
    return {
        "source": attribution.source,
        "costed_by": attribution.costed_by,
        "other_fraction": attribution.other_fraction,
        "memory": [_payer(payer) for payer in attribution.payers],
        "code": [
            {
                "site": asdict(line.site),
                "walks_fraction": line.walks_fraction,
                "walks": line.walks,
                "huge_walks": line.huge_walks,
                "samples": line.samples,
            }
            for line in attribution.code[:MOST_LINES]
        ],
        "phases": [_phases(image) for image in attribution.images],
    }


def _payer(payer: Payer) -> Value:
    fields = asdict(payer)
    fields["sites"] = [_site(site, share) for site, share in payer.sites]
    return fields


def _site(site: SourceLocation, share: float) -> Value:
    return {**asdict(site), "misses_fraction": share}


def _phases(image: ImageAttribution) -> Value:
    return {
        "pid": image.pid,
        "program": image.program,
        "references": image.references,
        "phase_references": image.phase_references,
        "phases": [
            {
                "start": phase.start,
                "stlb_hits": phase.base.hits,
                "stlb_misses": phase.base.walks,
                "huge_stlb_hits": phase.huge.hits,
                "huge_stlb_misses": phase.huge.walks,
            }
            for phase in image.phases
        ],
    }
