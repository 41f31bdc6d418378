# SPDX-License-Identifier: GPL-2.0-or-later
"""How are a review's figures drawn as SVG that can stand in an HTML file, several of them?"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.calibration.figure import draw
from tlbcost.calibration.other_sources import reported_figures
from tlbcost.calibration.records import Obtained
from tlbcost.common import units
from tlbcost.common.errors import TlbcostError
from tlbcost.common.gnuplot import draw_by
from tlbcost.common.temporary import temporary_folder
from tlbcost.report.lines import visible
from tlbcost.review.document import ReviewDocument, ReviewRow
from tlbcost.review.plan import share

if TYPE_CHECKING:
    from markupsafe import Markup

_LONGEST_LABEL = 24
_PAPER = re.compile(r'<rect x="0" y="0" width="\d+" height="\d+" fill="#ffffff"/>')
_TITLE = re.compile(r"<title>.*?</title>\s*<desc>.*?</desc>", re.DOTALL)
# Where an element is named, and where it is referred to.
_NAMES = re.compile(r"""(\bid=["']|xlink:href=["']#|url\(['"]?#)""")


def gains(review: ReviewDocument) -> Markup | None:
    """The forest plot; None: there are no gains. Raises TlbcostError: gnuplot cannot draw."""
    if all(row.gain_fraction is None for row in review.rows):
        return None
    return _drawn(
        "gains",
        lambda file: draw_by("review.gp", lambda folder: _settings(review, folder), file),
    )


def curve(obtained: Obtained, number: int) -> Markup | None:
    """Costs by footprint of the calibration of machine `number`; None: nothing was measured."""
    reported = reported_figures(obtained.calibration)
    measured = any(
        cost.quantity == "walk_ns" and cost.interval for cost in obtained.calibration.costs
    )
    if not measured and not obtained.curve:
        return None
    return _drawn(f"machine-{number}", lambda file: draw(obtained, reported, file, caches=False))


def _drawn(name: str, draw_to: Callable[[Path], None]) -> Markup:
    """What is drawn, as one element of a page whose ids begin with `name`."""
    from markupsafe import Markup

    with temporary_folder() as folder:
        file = folder / "figure.svg"
        draw_to(file)
        text = file.read_text(encoding="utf-8")
    if "<svg" not in text:
        raise TlbcostError("cannot draw a figure of the review: gnuplot wrote no SVG")
    # No XML declaration and no tooltip "Gnuplot"; its font "sans" is no generic one of CSS.
    text = _TITLE.sub("", text[text.index("<svg") :], count=1)
    # The page's paper is its own, light or dark.
    text = _PAPER.sub("", text, count=1)
    text = text.replace('font-family="sans"', 'font-family="sans-serif"')
    # The label of what it stands in says what it shows.
    text = text.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)
    return Markup(_NAMES.sub(rf"\g<1>{name}-", text))


def _settings(review: ReviewDocument, folder: Path) -> dict[str, str | int]:
    labels = [f"{n}. {_label(row)}" for n, row in enumerate(review.rows, start=1)]
    lines = ["number\tlabel\tgain\tlow\thigh"]
    for n, (label, row) in enumerate(zip(labels, review.rows, strict=True), start=1):
        lines.append(f"{n}\t{label}\t{_cells(row)}")
    (folder / "rows.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "rows": str(folder / "rows.tsv"),
        "count": len(review.rows),
        "columns": max(len(label.replace("\\\\", "\\")) for label in labels),
        "least": f"{100 * share(review.policy.least_gain, 'policy.least_gain'):g}",
    }


def _label(row: ReviewRow) -> str:
    """A short name, as gnuplot reads it: a quote would end the cell, and a backslash escapes."""
    short = units.middle(visible(row.service), _LONGEST_LABEL)
    return short.replace('"', "'").replace("\\", "\\\\")


def _cells(row: ReviewRow) -> str:
    gain = row.gain_fraction
    ends = ("value", "low", "high")
    return "\t".join("NA" if gain is None else f"{100 * getattr(gain, end):.4g}" for end in ends)
