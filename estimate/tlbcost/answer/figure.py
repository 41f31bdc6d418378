# SPDX-License-Identifier: GPL-2.0-or-later
"""Figure of an estimate: page walks over the run, the gain by place, the times of page faults."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tlbcost.answer.record import Estimate, Surroundings
from tlbcost.attribution.document import BlockCurve, curve_of
from tlbcost.common import units
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.gnuplot import draw_by
from tlbcost.simulator.memory_tables import ImageAttribution, Window

# References in a unit of the figure's axes.
_MILLION, _THOUSAND = 1e6, 1e3
_NS_PER_US = 1e3
_TITLE_COLUMNS = 70
_Row = Sequence[float | None]


def draw(found: Estimate, picture: Path) -> None:
    """Draw the process image with most walks. Raises TlbcostError; then no file is left."""
    simulated, around = found.simulated, found.given.surroundings
    attribution = None if simulated is None else simulated.attribution
    images = () if attribution is None else attribution.images
    image = max(images, key=lambda each: sum(at.base.walks for at in each.phases), default=None)
    windows: Sequence[Window] = ()
    sizes = ["", ""]
    words = shlex.join(found.given.argv)
    if len(words) > _TITLE_COLUMNS:
        words = f"{words[: _TITLE_COLUMNS - 3]}..."
    if simulated is not None and attribution is not None and image is not None:
        geometry = simulated.geometry
        sizes = [units.size(each.page_size_bytes) for each in (geometry.base, geometry.huge)]
        measured = {(each.pid, each.program): each.windows for each in attribution.windows}
        windows = measured.get((image.pid, image.program), ())
        if len(images) > 1:
            words += f" (process {image.pid} of {len(images)})"
    # Copies know where a program missed, Valgrind when.
    curve = curve_of([block for each in images for block in each.blocks])
    tables: dict[str, tuple[str, list[_Row]]] = {
        "phases": ("start base huge", [] if image is None else list(_phases(image))),
        "windows": ("middle base huge", list(_windows(windows))),
        "places": ("places gain growth", [] if curve is None else list(_places(curve))),
        "faults": (
            "one_in base huge program_base program_huge",
            [] if around is None else list(_faults(around)),
        ),
    }
    if not any(tables[name][1] for name in ("phases", "places", "faults")):
        why = "no process recorded when or where it missed, and no page fault was timed"
        raise TlbcostError(f"cannot draw {picture}: {why}", None, TOOL_FAILED)
    settings: dict[str, object] = {
        "title_words": words,
        "base_words": sizes[0],
        "huge_words": sizes[1],
        "last": f"{(0 if image is None else image.references) / _MILLION:.6g}",
        "knee": 0 if curve is None else curve.knee.blocks,
    }
    settings |= {f"has_{name}": int(bool(rows)) for name, (_, rows) in tables.items()}
    written = {name: [heading.split(), *rows] for name, (heading, rows) in tables.items()}
    draw_by("estimate.gp", picture, settings, written, TOOL_FAILED)


def _phases(image: ImageAttribution) -> Iterator[_Row]:
    rates: tuple[float, ...] = ()
    for phase in image.phases:
        references = min(image.phase_references, image.references - phase.start)
        if references > 0:
            rates = tuple(
                _THOUSAND * walks / references for walks in (phase.base.walks, phase.huge.walks)
            )
            yield (phase.start / _MILLION, *rates)
    if rates:
        # The last step has a width, too.
        yield (image.references / _MILLION, *rates)


def _windows(windows: Iterable[Window]) -> Iterator[_Row]:
    for window in sorted(windows, key=lambda each: each.start):
        if window.references:
            middle = (window.start + window.references / 2) / _MILLION
            cycles = (window.base_cycles, window.huge_cycles)
            yield (middle, *(n / window.references for n in cycles))


def _places(curve: BlockCurve) -> Iterator[_Row]:
    yield 0, 0, 0
    for point in curve.points:
        yield point.blocks, 100 * point.gain_fraction, point.growth_bytes / (1 << 20)


def _faults(around: Surroundings) -> Iterator[_Row]:
    """Quantiles in µs: one fault in `one_in` takes this long; a column for each kind."""
    stalls = around.stalls
    if stalls is None:
        return
    kinds = (stalls.base, stalls.huge, stalls.base_faults, stalls.huge_faults)
    for n, times in enumerate(kinds):
        if times is None:
            continue
        quantiles = {2: times.median_ns, 100: times.p99_ns, 1000: times.p999_ns}
        known = {one_in: ns for one_in, ns in quantiles.items() if one_in < times.touches}
        for one_in, ns in (known | {times.touches: times.worst_ns}).items():
            cells: list[float | None] = [None] * len(kinds)
            cells[n] = ns / _NS_PER_US
            yield (one_in, *cells)
