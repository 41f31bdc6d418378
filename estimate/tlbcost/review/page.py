# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a review written as one HTML file, which loads nothing from anywhere?"""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

from tlbcost.common import units
from tlbcost.common.cleanup import temporary_folder
from tlbcost.common.gnuplot import draw_by
from tlbcost.common.interval import Interval
from tlbcost.common.paths import data
from tlbcost.report.lines import visible
from tlbcost.review.document import ReviewDocument, ReviewRow
from tlbcost.review.plan import share
from tlbcost.review.text import bytes_words, gain_words, number_words

# A name in a table; whole below.
_LONGEST_NAME = 60
_ENDS = {"low": "lower end", "value": "middle", "high": "upper end"}


def to_html(review: ReviewDocument) -> str:
    """The page. Raises TlbcostError: gnuplot cannot draw."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_visible
    )
    filters = {
        "name": visible,
        "short": lambda name: units.middle(visible(name), _LONGEST_NAME),
        "gain": gain_words,
        "share": _share_words,
        "percent": lambda part: units.NOT_OBTAINED if part is None else units.percent(part),
        "bytes": bytes_words,
        "number": number_words,
        "shell": shlex.join,
    }
    environment.filters.update(filters)
    template = environment.from_string(data("review", "report.html").read_text(encoding="utf-8"))
    return template.render(
        review=review,
        decisions=Counter(row.decision for row in review.rows).items(),
        end_words=_ENDS[review.policy.decide_on],
        figure=_figure(review),
    )


def _visible(value: object) -> object:
    """Text without what would steer a terminal or turn the line around; lines stay."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "\n".join(visible(line) for line in value.split("\n"))


def _share_words(found: Interval | None) -> str:
    return units.NOT_OBTAINED if found is None else units.percent(found.value)


def _figure(review: ReviewDocument) -> str | None:
    """The forest plot as SVG, of which only numbers are from the plan; None: there are no gains."""
    from markupsafe import Markup

    if all(row.gain_fraction is None for row in review.rows):
        return None
    with temporary_folder() as folder:
        picture = folder / "gains.svg"
        draw_by("review.gp", lambda tables: _settings(review, tables), picture)
        text = picture.read_text(encoding="utf-8")
    # The page is one document: no XML declaration, and no second DOCTYPE.
    return Markup(text[text.index("<svg") :])


def _settings(review: ReviewDocument, folder: Path) -> dict[str, str | int]:
    lines = ["number\tgain\tlow\thigh"]
    lines += [f"{n}\t{_cells(row)}" for n, row in enumerate(review.rows, start=1)]
    (folder / "rows.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {
        "rows": str(folder / "rows.tsv"),
        "count": len(review.rows),
        "least": f"{100 * share(review.policy.least_gain, 'policy.least_gain'):g}",
    }


def _cells(row: ReviewRow) -> str:
    gain = row.gain_fraction
    ends = ("value", "low", "high")
    return "\t".join("NA" if gain is None else f"{100 * getattr(gain, end):.4g}" for end in ends)
