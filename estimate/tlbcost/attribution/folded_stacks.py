# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls that lead to page walks, as flame-graph tools read them: 'program;main;f;g 1234'."""

from __future__ import annotations

from collections.abc import Sequence

from tlbcost.common import names
from tlbcost.simulator.memory_tables import ImageAttribution, SourceLocation


def folded(images: Sequence[ImageAttribution]) -> str:
    """One line for each stack of calls, outermost first, and the walks on base pages it stands for.

    The format is that of Gregg's stackcollapse scripts: frames separated by semicolons, then a
    blank and the count.
    """
    sums: dict[str, int] = {}
    for image in images:
        program = _clean(image.program.rpartition("/")[2])
        for stack in image.stacks:
            frames = [_frame(frame) for frame in reversed(stack.frames)] or ["[unknown]"]
            line = ";".join([program, *frames])
            sums[line] = sums.get(line, 0) + stack.base_walks
    lines = [f"{line} {walks}\n" for line, walks in sorted(sums.items()) if walks]
    return "".join(lines)


def _frame(site: SourceLocation) -> str:
    if site.function is not None:
        return _clean(site.function)
    name = (site.object or "").rpartition("/")[2]
    return _clean(f"[{name}]") if name else "[unknown]"


def _clean(text: str) -> str:
    # A semicolon ends a frame, and a line's last blank begins the count.
    return names.shown(text).replace(";", ":").strip()
