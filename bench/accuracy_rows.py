# SPDX-License-Identifier: GPL-2.0-or-later
"""Published figures and their predictions: how many are inside their intervals? Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tlbcost.common.units import Interval

# So little is nothing, on both sides; and counts agree within a share.
_NOTHING, _COUNTS = 0.001, 0.15


@dataclass(frozen=True, slots=True)
class Row:
    """One published figure and its prediction; `interval` None: counts have none."""

    source: str
    cpu: str
    core: str
    what: str
    published: float
    predicted: float
    interval: Interval | None

    @property
    def inside(self) -> bool:
        """Counts count as such within 15 %, or if both are nearly nothing."""
        if self.interval is not None:
            return self.interval.low <= self.published <= self.interval.high
        return self.error <= _COUNTS

    @property
    def error(self) -> float:
        """Relative; of what is nearly nothing on both sides, none."""
        if max(self.published, self.predicted) < _NOTHING:
            return 0.0
        return abs(self.predicted / self.published - 1)


def text_of(rows: Sequence[Row]) -> str:
    """The summary and the table."""
    lines = ["| of | rows | inside | median error |", "| --- | ---: | ---: | ---: |"]
    kinds = {
        "time ratios": [row for row in rows if row.what.startswith("time")],
        "cycles of a read": [row for row in rows if row.what.startswith("cycles")],
        "walks": [row for row in rows if row.what.startswith("walks")],
        "all": list(rows),
    }
    for name, own in kinds.items():
        if own:
            inside = sum(row.inside for row in own)
            error = median(row.error for row in own)
            share = f"{inside} ({100 * inside / len(own):.0f} %)"
            lines.append(f"| {name} | {len(own)} | {share} | {100 * error:.0f} % |")
    lines += [
        "",
        "| source | core | what | published | predicted | interval | inside |",
        "| --- | --- | --- | ---: | ---: | --- | --- |",
    ]
    for row in rows:
        between = (
            "" if row.interval is None else f"{row.interval.low:.3g} to {row.interval.high:.3g}"
        )
        lines.append(
            f"| {row.source}, {row.cpu} | {row.core} | {row.what} | {row.published:.3g} | "
            f"{row.predicted:.3g} | {between} | {'yes' if row.inside else 'no'} |"
        )
    return "\n".join(lines) + "\n"
