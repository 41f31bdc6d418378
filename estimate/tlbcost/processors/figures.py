# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a machine file say besides its TLBs, from which source, and how sure is it?

A figure that was not checked against its source has a range of plausible values: whoever uses it
has to let it vary (doc/format.md, "machine").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from tlbcost.common import formats, paths
from tlbcost.common.table import Table, read_table

_PREFIX = "core_"
_BETWEEN = ".."


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; its unit is in its name. `low` and `high` equal `value` if it is verified."""

    value: float
    source: str
    explanation: str
    verified: bool
    low: float
    high: float


def explanation_of(table: Table, source: str) -> str:
    """What a source is; several that agree are joined by +."""
    return "; ".join(table.key(f"source_{key}") for key in source.split("+"))


def plausible(text: str, value: float, *, verified: bool) -> tuple[float, float]:
    """A range `low..high` around a value. Raises ValueError; verified figures have none."""
    if verified:
        if text not in ("", "NA"):
            raise ValueError(f"a verified figure has no range: {text}")
        return value, value
    low, between, high = text.partition(_BETWEEN)
    if not between or not float(low) <= value <= float(high):
        raise ValueError(f"not a range around {value:g}: {text or 'none'}")
    return float(low), float(high)


def figures_in(table: Table) -> Mapping[str, Figure]:
    """The `core_...` lines of a machine file, without the prefix. Raises ValueError."""
    found = {}
    for key, text in table.header.items():
        name = key.removeprefix(_PREFIX)
        if name == key:
            continue
        try:
            value, source, verified, *between = text.split()
            if verified not in ("yes", "no") or len(between) > 1:
                raise ValueError(verified)
            number, sure = float(value.split(":")[0]), verified == "yes"
            low, high = plausible("".join(between), number, verified=sure)
        except ValueError as error:
            form = "'value source yes' or 'value source no low..high'"
            raise ValueError(f"not {form}: {key}: {text}: {error}") from error
        found[name] = Figure(number, source, explanation_of(table, source), sure, low, high)
    return found


@cache
def assumed() -> Mapping[str, Figure]:
    """Figures that hardly any vendor publishes, as assumed of a core whose file lacks them."""
    return figures_in(read_table(paths.data("assumed.tsv"), formats.MACHINE))
