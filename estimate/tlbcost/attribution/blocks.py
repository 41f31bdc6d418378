# SPDX-License-Identifier: GPL-2.0-or-later
"""The part of the gain that some of a program's huge pages give, and the memory they add."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Annotated

from tlbcost.common import units
from tlbcost.common.document import Part, doc
from tlbcost.simulator.memory_tables import Block

_BASE_BYTES, HUGE_BYTES = 4096, 2 << 20
_KNEE_FRACTION = 0.75
_MOST_POINTS = 20
# Of fewer blocks or walks nothing is said.
_LEAST_BLOCKS, _LEAST_WALKS = 8, 1000
# Where TLB entries hold base pages whatever is mapped, huge pages remove no walk, and make each
# cheaper.
_LEAST_REMOVED = 0.05


class CurvePoint(Part, frozen=True, kw_only=True):
    """The blocks that give most for the memory they add, up to this number."""

    blocks: Annotated[int, doc("how many", minimum=1)]
    gain_fraction: Annotated[float, doc("their part of what all blocks save", minimum=0, maximum=1)]
    growth_bytes: Annotated[
        int, doc("memory that huge pages would add there: what is not resident", minimum=0)
    ]


class BlockCurve(Part, frozen=True, kw_only=True):
    """Places of 2 MiB in anonymous memory with page walks, those first that save most per byte."""

    blocks: Annotated[int, doc("all of them", minimum=1)]
    growth_bytes: Annotated[int, doc("memory that they would add", minimum=0)]
    knee: Annotated[CurvePoint, doc("the fewest with three quarters of what all save")]
    points: Annotated[list[CurvePoint], doc("at most 20, of growing numbers of blocks")]


def added_bytes(block: Block) -> int | None:
    """Memory that a huge page adds there."""
    known = block.resident_bytes
    return None if known is None else max(HUGE_BYTES - known, 0)


def saved_walks(blocks: Sequence[Block]) -> list[float]:
    """What huge pages save in each; where they remove none, all get cheaper."""
    walks = [block.base_walks for block in blocks]
    removed = [max(block.base_walks - block.huge_walks, 0.0) for block in blocks]
    return walks if sum(removed) < _LEAST_REMOVED * sum(walks) else removed


def curve_of(blocks: Sequence[Block]) -> BlockCurve | None:
    """The curve; None where too little is known."""
    blocks = [block for block in blocks if block.resident_bytes is not None]
    if len(blocks) < _LEAST_BLOCKS or sum(block.base_walks for block in blocks) < _LEAST_WALKS:
        return None
    saved = saved_walks(blocks)
    added = [added_bytes(block) or 0 for block in blocks]
    order = sorted(
        range(len(blocks)), key=lambda i: saved[i] / (added[i] + _BASE_BYTES), reverse=True
    )
    gains, growths = accumulate(saved[i] for i in order), accumulate(added[i] for i in order)
    whole = [
        CurvePoint(blocks=n, gain_fraction=min(1.0, gain / (sum(saved) or 1)), growth_bytes=growth)
        for n, (gain, growth) in enumerate(zip(gains, growths, strict=True), start=1)
    ]
    step = -(-len(whole) // _MOST_POINTS)
    return BlockCurve(
        blocks=len(whole),
        growth_bytes=whole[-1].growth_bytes,
        knee=next(point for point in whole if point.gain_fraction >= _KNEE_FRACTION),
        points=[*whole[step - 1 : -1 : step], whole[-1]],
    )


def curve_sentence(curve: BlockCurve) -> str:
    knee = curve.knee
    text = (
        f"Of {curve.blocks} places of 2 MiB with page walks, {knee.blocks} have "
        f"{units.percent(knee.gain_fraction)} of what huge pages save there"
    )
    if not curve.growth_bytes:
        return f"{text}; none adds memory."
    return (
        f"{text}, and add {units.size(knee.growth_bytes)} of the {units.size(curve.growth_bytes)} "
        "that all would add."
    )
