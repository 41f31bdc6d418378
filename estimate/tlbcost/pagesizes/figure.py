# SPDX-License-Identifier: GPL-2.0-or-later
"""How do runs on pages of several sizes look as a figure?"""

from __future__ import annotations

import math
from pathlib import Path

from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.gnuplot import draw_by, word_list
from tlbcost.common.units import NOT_OBTAINED
from tlbcost.pagesizes.document import PageSizesDocument
from tlbcost.pagesizes.published import ratio_of

# The axis covers at least this range, and a margin beyond the outermost point.
_LEAST, _MOST, _ROOM = 0.5, 2.0, 1.2


def draw_page_sizes(report: PageSizesDocument, picture: Path) -> None:
    """Draw the ratios. Raises TlbcostError; then no file is left."""
    if not any(size.ratio for pattern in report.patterns for size in pattern.page_sizes):
        raise TlbcostError(f"cannot draw {picture}: no ratio was measured", None, CANNOT_MEASURE)
    draw_by("pagesizes.gp", lambda folder: _settings(report, folder), picture)


def _settings(report: PageSizesDocument, folder: Path) -> dict[str, str | int]:
    sizes = report.page_sizes[1:]
    columns = ["pattern", "position"]
    for i in range(1, len(sizes) + 1):
        columns += [f"ratio_{i}", f"low_{i}", f"high_{i}", f"published_{i}"]
    rows: list[list[float | None]] = []
    for position, pattern in enumerate(report.patterns, start=1):
        row: list[float | None] = [pattern.pattern, position]
        for size in sizes:
            ratio = pattern.on(size.page_size_bytes).ratio
            known = ratio_of(report.published, pattern.pattern, size.page_size_bytes)
            row += [None] * 3 if ratio is None else [ratio.value, ratio.low, ratio.high]
            row.append(None if known is None else known.ratio)
        rows.append(row)
    cells = [[NOT_OBTAINED if cell is None else f"{cell:.6g}" for cell in row] for row in rows]
    lines = ["\t".join(row) for row in (columns, *cells)]
    (folder / "ratios.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ratios = [cell for row in rows for cell in row[2:] if cell is not None and cell > 0]
    return {
        "ratios": str(folder / "ratios.tsv"),
        "title_words": f"Access patterns on larger pages: {report.machine.cpu_name or 'NA'}",
        "base_words": report.page_sizes[0].name,
        "size_words": word_list(size.name for size in sizes),
        "names": word_list(p.label for p in report.patterns),
        "least": _number(min(_LEAST, min(ratios) / _ROOM)),
        "most": _number(max(_MOST, max(ratios) * _ROOM)),
    }


def _number(end: float) -> str:
    """For gnuplot, which reads quoted numbers, with two digits."""
    digits = 2 - math.floor(math.log10(end))
    return f"{end:.{max(digits, 0)}f}"
