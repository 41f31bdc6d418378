# SPDX-License-Identifier: GPL-2.0-or-later
"""Tables of a made-up program's placement, as the simulator writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tlbcost.common import formats
from tlbcost.common.table import Cell, format_table
from tlbcost.numa.placement_table import ImagePlacement, read_placements

HUGE_PAGES = 512  # base pages of a huge page

Row = tuple[int, int, Sequence[int]]  # page, thread, accesses by interval


def header(state: str = "exited", **changed: Cell) -> dict[str, Cell]:
    made: dict[str, Cell] = {
        "pid": 7, "program": "/bin/x", "state": state, "base_page_bytes": 4096,
        "huge_page_bytes": 2097152,
    }  # fmt: skip
    if state == "exited":
        made |= {
            "l2": "65536:16", "l3": "0:0", "period": 1, "warm": 0, "measured": 1,
            "references": 1000, "interval": 500, "intervals": 2, "l2_misses": 100,
            "walk_l2_misses": 4,
        }  # fmt: skip
    return made | changed


def write(
    folder: Path,
    rows: Sequence[Row],
    touches: Sequence[tuple[int, int, str]],
    *,
    written: dict[int, int] | None = None,
    **changed: Cell,
) -> None:
    cells = [
        (page, thread, (written or {}).get(page, 0), *[*by, *[0] * 8][:8])
        for page, thread, by in rows
    ]
    made = header(**changed)  # type: ignore[arg-type]
    (folder / "placement.7.0.tsv").write_text(format_table(formats.PLACEMENT, made, cells))
    (folder / "touches.7.0.tsv").write_text(format_table(formats.TOUCHES, header(), touches))


def image(tmp_path: Path, *arguments: object, **changed: object) -> ImagePlacement:
    write(tmp_path, *arguments, **changed)  # type: ignore[arg-type]
    (found,) = read_placements(tmp_path)
    return found


def region(number: int) -> int:
    """First base page of a huge page."""
    return number * HUGE_PAGES
