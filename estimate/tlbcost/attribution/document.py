# SPDX-License-Identifier: GPL-2.0-or-later
"""Page walks by memory and by code in an estimate's JSON."""

from __future__ import annotations

from typing import Annotated

from tlbcost.attribution.shares import Attribution, CodeLine, CostedBy, RegionShare
from tlbcost.common.document import Part, doc, part_of
from tlbcost.simulator.memory_tables import ImageAttribution

# Lines of code with fewer walks than these are left out.
MOST_LINES = 100


class PhaseMisses(Part, frozen=True, kw_only=True):
    """Misses from this reference of the process image on, until the next phase."""

    start: Annotated[int, doc("number of its first reference", minimum=0)]
    stlb_hits: Annotated[int, doc("on base pages", minimum=0)]
    stlb_misses: Annotated[int, doc("page walks on base pages", minimum=0)]
    huge_stlb_hits: Annotated[int, doc("on huge pages", minimum=0)]
    huge_stlb_misses: Annotated[int, doc("page walks on huge pages", minimum=0)]


class ProcessPhases(Part, frozen=True, kw_only=True):
    """The phases of one process image."""

    pid: Annotated[int, doc("process number", minimum=0)]
    program: Annotated[str, doc("what it runs")]
    references: Annotated[int, doc("memory references in all", minimum=0)]
    phase_references: Annotated[int, doc("references in a phase", minimum=0)]
    phases: Annotated[list[PhaseMisses], doc("in their order")]


class AttributionPart(Part, frozen=True, kw_only=True):
    """Page walks by memory and by code; shares sum to the whole."""

    source: Annotated[str, doc("what found the misses: simulation, or samples of these events")]
    costed_by: Annotated[
        CostedBy | None,
        doc(
            "the basis of times: stall cycles in modelled windows, or calibrated costs; null: "
            "samples have no times"
        ),
    ]
    other_fraction: Annotated[
        float, doc("of the walks, those in unknown memory", minimum=0, maximum=1)
    ]
    memory: Annotated[tuple[RegionShare, ...], doc("memory of one kind and name in one program")]
    code: Annotated[tuple[CodeLine, ...], doc("lines of code, most walks first")]
    phases: Annotated[list[ProcessPhases], doc("when it missed")]


def attribution_part(attribution: Attribution | None) -> AttributionPart | None:
    if attribution is None:
        return None
    return part_of(
        AttributionPart,
        attribution,
        other_fraction=attribution.other_fraction,
        memory=attribution.regions,
        code=attribution.code[:MOST_LINES],
        phases=[_phases(image) for image in attribution.images],
    )


def _phases(image: ImageAttribution) -> ProcessPhases:
    phases = [
        PhaseMisses(
            start=phase.start,
            stlb_hits=phase.base.hits,
            stlb_misses=phase.base.walks,
            huge_stlb_hits=phase.huge.hits,
            huge_stlb_misses=phase.huge.walks,
        )
        for phase in image.phases
    ]
    return part_of(ProcessPhases, image, phases=phases)
