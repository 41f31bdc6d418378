# SPDX-License-Identifier: GPL-2.0-or-later
"""How does a watch look as a figure?"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from tlbcost.common.errors import TlbcostError
from tlbcost.common.gnuplot import draw_by
from tlbcost.common.units import NOT_OBTAINED
from tlbcost.numa.watch.document import WatchDocument, WatchInterval
from tlbcost.numa.watch.view import head

_COLUMNS = ("at", "local", "moved", "split", "imbalance", "huge")


def draw_watch(document: WatchDocument, picture: Path) -> None:
    """Draw its intervals and actions. Raises TlbcostError; then no file is left."""
    if not any(each.figures.now.local_fraction is not None for each in document.intervals):
        raise TlbcostError(f"cannot draw {picture}: no memory access was seen", None)
    draw_by("numa-watch.gp", lambda folder: _settings(document, folder), picture)


def _settings(document: WatchDocument, folder: Path) -> dict[str, str | int]:
    rows = [_row(each) for each in document.intervals]
    cells = [[NOT_OBTAINED if cell is None else f"{cell:.6g}" for cell in row] for row in rows]
    _write(folder / "intervals.tsv", _COLUMNS, cells)
    # What is done at one moment is one line; huge pages are stopped only for what is split then.
    shown = [each for each in document.actions if each.kind != "stop_huge"]
    moments = [
        (at_s, " + ".join(each.kind for each in actions))
        for at_s, actions in groupby(shown, key=lambda each: round(each.at_s))
    ]
    lines = [[str(at_s), str(n), words] for n, (at_s, words) in enumerate(moments, start=1)]
    _write(folder / "actions.tsv", ("at", "number", "words"), lines)
    uneven = max((row[4] for row in rows if row[4] is not None), default=0.0)
    huge = max((row[5] for row in rows if row[5] is not None), default=0.0)
    return {
        "intervals": str(folder / "intervals.tsv"),
        "actions": str(folder / "actions.tsv"),
        "has_actions": len(lines),
        "title_words": head(document),
        "last": max(round(document.watched_s + 0.5), 1),
        "most": max(100, round(uneven + 5)),
        "huge_step": max(round(huge / 3), 1),
    }


def _row(each: WatchInterval) -> list[float | None]:
    figures = each.figures
    fractions = (
        figures.now.local_fraction,
        figures.moved_fraction,
        figures.split_fraction,
        figures.now.imbalance,
    )
    percent = [None if fraction is None else 100 * fraction for fraction in fractions]
    return [each.at_s, *percent, None if each.huge_bytes is None else each.huge_bytes / 2**20]


def _write(path: Path, columns: tuple[str, ...], rows: list[list[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in (columns, *rows)), encoding="utf-8")
