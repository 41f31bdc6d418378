# SPDX-License-Identifier: GPL-2.0-or-later
"""On which of several machines do larger pages save most? Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from tlbcost.common import units
from tlbcost.machines.gain import MachineResult, SizeResult


def best_of(result: MachineResult) -> SizeResult | None:
    """The larger page size with the least time; None: none was timed."""
    timed = [size for size in result.sizes[1:] if size.time_ratio is not None]
    return min(timed, key=_value) if timed else None


def best_first(machines: Sequence[MachineResult]) -> list[tuple[MachineResult, SizeResult | None]]:
    """The machines with their best sizes, what saves most first, what is not known last."""
    found = [(result, best_of(result)) for result in machines]
    return sorted(found, key=lambda pair: (pair[1] is None, pair[1] and _value(pair[1])))


def plain_sentence(machines: Sequence[MachineResult]) -> str | None:
    """What all of them come to, in one sentence; None if there is only one."""
    timed = [(result, size) for result, size in best_first(machines) if size is not None]
    if len(machines) < 2 or not timed:
        return None
    parts = [f"on {result.machine.title} {_saves(size)}" for result, size in timed]
    text = f"{', '.join(parts)}."
    return text[0].upper() + text[1:]


def _saves(size: SizeResult) -> str:
    ratio = size.time_ratio
    assert ratio is not None
    pages = units.size(size.size.page_bytes)
    low, value, high = (round(100 * (1 - end)) for end in (ratio.high, ratio.value, ratio.low))
    return f"{pages} pages save {value} % ({low} to {high})"


def _value(size: SizeResult) -> float:
    assert size.time_ratio is not None
    return size.time_ratio.value
