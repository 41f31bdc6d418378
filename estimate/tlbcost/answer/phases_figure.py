# SPDX-License-Identifier: GPL-2.0-or-later
"""Figure of page walks and modelled time over the run, and of the gain by place."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from tlbcost.answer.record import Simulated
from tlbcost.attribution.document import BlockCurve, curve_of
from tlbcost.common import units
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.gnuplot import draw_by
from tlbcost.simulator.memory_tables import ImageAttribution, Window

# References in a unit of the figure's axes.
_MILLION, _THOUSAND = 1e6, 1e3
_TITLE_COLUMNS = 70


def draw_phases(argv: Sequence[str], simulated: Simulated, picture: Path) -> None:
    """Draw the process image with most walks. Raises TlbcostError; then no file is left."""
    attribution = simulated.attribution
    images = attribution.images if attribution is not None else ()
    # Copies know where a program missed, Valgrind when.
    curve = curve_of([block for each in images for block in each.blocks])
    if curve is None and not any(image.phases for image in images):
        raise TlbcostError(
            f"cannot draw {picture}: no process recorded when or where it missed", None, TOOL_FAILED
        )
    assert attribution is not None
    image = max(images, key=lambda each: sum(phase.base.walks for phase in each.phases))
    words = shlex.join(argv)
    if len(words) > _TITLE_COLUMNS:
        words = f"{words[: _TITLE_COLUMNS - 3]}..."
    if len(images) > 1:
        words += f" (process {image.pid} of {len(images)})"
    sizes = [simulated.geometry.base.page_size_bytes, simulated.geometry.huge.page_size_bytes]
    found = {(each.pid, each.program): each.windows for each in attribution.windows}
    windows = found.get((image.pid, image.program), ())
    draw_by(
        "phases.gp",
        lambda folder: _settings(image, windows, words, sizes, folder) | _curve(curve, folder),
        picture,
        TOOL_FAILED,
    )


def _settings(
    image: ImageAttribution,
    windows: Sequence[Window],
    words: str,
    sizes: Sequence[int],
    folder: Path,
) -> dict[str, str | int]:
    phases = folder / "phases.tsv"
    rows = ["start\tbase\thuge"]
    for phase in image.phases:
        references = min(image.phase_references, image.references - phase.start)
        if references > 0:
            per = _THOUSAND / references
            rows.append(
                f"{phase.start / _MILLION:.6g}\t{phase.base.walks * per:.6g}"
                f"\t{phase.huge.walks * per:.6g}"
            )
    # The last step has a width, too.
    rows.append(f"{image.references / _MILLION:.6g}\t{rows[-1].partition(chr(9))[2]}")
    phases.write_text("\n".join(rows) + "\n", encoding="utf-8")
    seen = folder / "windows.tsv"
    lines = ["middle\tbase\thuge"]
    lines += [
        f"{(window.start + window.references / 2) / _MILLION:.6g}"
        f"\t{window.base_cycles / window.references:.6g}"
        f"\t{window.huge_cycles / window.references:.6g}"
        for window in sorted(windows, key=lambda window: window.start)
        if window.references
    ]
    seen.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "phases": str(phases),
        "has_phases": int(bool(image.phases)),
        "windows": str(seen),
        "has_windows": int(len(lines) > 1),
        "title_words": words,
        "base_words": units.size(sizes[0]),
        "huge_words": units.size(sizes[1]),
        "last": f"{image.references / _MILLION:.6g}",
    }


def _curve(curve: BlockCurve | None, folder: Path) -> dict[str, str | int]:
    file = folder / "places.tsv"
    lines = ["places\tgain\tgrowth", "0\t0\t0"]
    for point in [] if curve is None else curve.points:
        growth = point.growth_bytes / (1 << 20)
        lines.append(f"{point.blocks}\t{100 * point.gain_fraction:.4g}\t{growth:.6g}")
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "places": str(file),
        "has_places": int(curve is not None),
        "knee": 0 if curve is None else curve.knee.blocks,
    }
