# SPDX-License-Identifier: GPL-2.0-or-later
"""The figure of a calibration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.calibration.file import write_calibration
from tlbcost.calibration.records import CHAINS, WORDS, Calibration, Obtained, ReportedFigure, find
from tlbcost.calibration.report import cpu
from tlbcost.common import formats, units
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import parse_table
from tlbcost.common.gnuplot import draw_by, word_list

_CACHES = {"l1d_bytes": "L1d", "l2_bytes": "L2", "l3_bytes": "L3"}
_LEVELS = ("dtlb_entries", "stlb_entries")
# Knees closer together than this share one label.
_NEAR = 1.2
_ENTRY_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Mark:
    at: float
    words: str


def draw(
    obtained: Obtained, reported: Sequence[ReportedFigure], picture: Path, *, caches: bool = True
) -> None:
    """Draw the curve, the walks' costs and `caches`. Raises TlbcostError, and leaves no file."""

    def settings(folder: Path) -> dict[str, str | int]:
        found = _settings(obtained, reported, folder)
        return found if caches else found | {"caches": 0}

    draw_by("calibration.gp", settings, picture)


def _settings(
    obtained: Obtained, reported: Sequence[ReportedFigure], folder: Path
) -> dict[str, str | int]:
    """The variables that the gnuplot file asks for; its tables are written to `folder`."""
    calibration, text = obtained.calibration, obtained.curve or ""
    curve = []
    if text:
        curve = parse_table(text, "the curve of the calibration", formats.CURVE).records()
    (folder / "curve.tsv").write_text(text, encoding="utf-8")
    write_calibration(folder / "calibration.tsv", calibration)
    base = calibration.machine.base_page_bytes
    tlb = [row for row in curve if row["probe"] == "tlb"]
    sizes = _sizes(row["page_size_bytes"] for row in tlb if row["layout"] == "spread")
    dense = _sizes(row["page_size_bytes"] for row in tlb if row["layout"] == "dense")
    walks = [cost for cost in calibration.costs if cost.quantity == "walk_ns" and cost.interval]
    walked = _sizes(cost.page_size_bytes for cost in walks if cost.access == "serial")
    chains = {c.access.removeprefix("chains_") for c in walks if c.access in CHAINS and c.access}
    if not tlb and not walks:
        raise TlbcostError(
            "cannot draw: nothing was measured of the TLBs",
            "tlbcost calibrate --recalibrate  (while nothing else runs)",
        )
    # The next power of two but one, for room beyond the last point.
    last = max([int(str(row["lines"])) for row in tlb] + [cost.pages or 1 for cost in walks])
    spacings = _sizes(row["spacing_bytes"] for row in curve if row["probe"] == "cache")
    cached = max([int(str(r["lines"])) for r in curve if r["probe"] == "cache"], default=0)
    cached *= min(spacings, default=0)
    caches = _caches(calibration, reported)
    marks = {
        "knee": _knees(calibration, sizes),
        "table": [_Mark(m.at / _ENTRY_BYTES, f"fill {m.words}") for m in caches],
        "cache": caches,
    }
    settings: dict[str, str | int] = {
        "curve": str(folder / "curve.tsv"),
        "calibration": str(folder / "calibration.tsv"),
        "title_words": cpu(calibration.machine),
        "base": base,
        "huge": max(dense, default=0),
        "huge_words": units.size(max(dense, default=0)),
        "sizes": word_list(sizes),
        "size_words": word_list(map(units.size, sizes)),
        "walk_sizes": word_list(walked),
        "walk_words": word_list(map(units.size, walked)),
        "chains": word_list(sorted(chains)),
        "last_page": 1 << last.bit_length() + 1,
        "caches": int(bool(spacings)),
        # A chain of every line has them closest together.
        "line": min(spacings, default=0),
        "cache_last": round(1.25 * max([cached, *(mark.at for mark in caches)])),
    }
    for name, lines in marks.items():
        settings[f"{name}_at"] = word_list(f"{line.at:.6g}" for line in lines)
        settings[f"{name}_labels"] = word_list(line.words for line in lines)
    return settings


def _sizes(sizes: Iterable[int | str | None]) -> list[int]:
    return sorted({int(size) for size in sizes if size is not None})


def _knees(calibration: Calibration, sizes: Sequence[int]) -> list[_Mark]:
    marks = []
    for quantity in _LEVELS:
        groups: list[list[tuple[float, int]]] = []
        for cost in (cost for size in sizes for cost in find(calibration, quantity, size)):
            if cost.interval is not None and cost.page_size_bytes is not None:
                knee = cost.interval.value, cost.page_size_bytes
                for group in groups:
                    if 1 / _NEAR < knee[0] / group[0][0] < _NEAR:
                        group.append(knee)
                        break
                else:
                    groups.append([knee])
        for group in groups:
            at = [entries for entries, _ in group]
            low, high = f"{min(at):.0f}", f"{max(at):.0f}"
            # Several page sizes at one knee are distinguished by their curves.
            words = f"{low} x {units.size(group[0][1])}" if len(group) == 1 else low
            if high != low:
                words = f"{low}..{high}"
            marks.append(_Mark(at[0], f"{WORDS[quantity].removesuffix(' entries')} {words}"))
    return marks


def _caches(calibration: Calibration, reported: Sequence[ReportedFigure]) -> list[_Mark]:
    marks = []
    for quantity, name in _CACHES.items():
        measured = [c.interval for c in find(calibration, quantity, None) if c.interval]
        cited = [figure.value for figure in reported if figure.quantity == quantity]
        if measured:
            size = units.size(round(measured[0].value))
            marks.append(_Mark(measured[0].value, f"{name} ({size})"))
        elif cited:
            marks.append(_Mark(cited[0], f"{name} ({units.size(cited[0])}, reported)"))
    return marks
