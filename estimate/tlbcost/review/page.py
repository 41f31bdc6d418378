# SPDX-License-Identifier: GPL-2.0-or-later
"""A review as one HTML file, which loads nothing from anywhere."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.accuracy.record import TrackRecord, shipped_track_records
from tlbcost.attribution.shares import words
from tlbcost.calibration.consistency import presentable
from tlbcost.calibration.figure import draw
from tlbcost.calibration.other_sources import reported_figures
from tlbcost.calibration.records import Access, Calibration, Obtained, find
from tlbcost.common import names, units
from tlbcost.common.errors import TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.gnuplot import draw_by
from tlbcost.common.interval import Interval
from tlbcost.common.paths import data
from tlbcost.report.lines import visible
from tlbcost.report.regions import code_words, on_pages, title
from tlbcost.report.remedies import cost_words
from tlbcost.review.document import HostPool, ReviewDocument, ReviewMachine, ReviewRow
from tlbcost.review.plan import share
from tlbcost.review.text import bytes_words, gain_words, number_words

if TYPE_CHECKING:
    from markupsafe import Markup

# A name in a table; whole below.
_LONGEST_NAME = 60
_ENDS = {"low": "lower end", "value": "middle", "high": "upper end"}
_WAYS = {
    "measured": "measured: base and huge pages in turns",
    "overlap": "model of overlapping misses",
    "simple": "misses times their costs",
    "estimate": "estimates, as they quote it",
}
# Rows of a machine's costs: quantity, words, access.
_COSTS: tuple[tuple[str, str, Access | None], ...] = (
    ("dtlb_entries", "L1 dTLB entries", None),
    ("stlb_entries", "STLB entries", None),
    ("stlb_hit_ns", "STLB hit", "serial"),
    ("walk_ns", "page walk", "serial"),
    ("fault_ns", "page fault, first touch", None),
)
_LONGEST_LABEL = 24
_PAPER = re.compile(r'<rect x="0" y="0" width="\d+" height="\d+" fill="#ffffff"/>')
_TITLE = re.compile(r"<title>.*?</title>\s*<desc>.*?</desc>", re.DOTALL)
# Where an element is named, and where it is referred to.
_NAMES = re.compile(r"""(\bid=["']|xlink:href=["']#|url\(['"]?#)""")


@dataclass(frozen=True, slots=True)
class _Budget:
    pool: HostPool
    rows: tuple[ReviewRow, ...]
    share: float | None


@dataclass(frozen=True, slots=True)
class _Host:
    machine: ReviewMachine
    budget: _Budget | None
    sizes: tuple[int, ...]
    costs: tuple[tuple[str, tuple[str, ...]], ...]
    figure: Markup | None
    has_curve: bool


def to_html(review: ReviewDocument, calibrations: Mapping[str, Obtained] | None = None) -> str:
    """The page. `calibrations`: of the types of hosts, by name. Raises TlbcostError: no gnuplot."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_visible
    )
    environment.filters.update(
        {
            "name": visible,
            "short": lambda name: units.middle(visible(name), _LONGEST_NAME),
            "gain": gain_words,
            "share": lambda found: _percent(None if found is None else found.value),
            "percent": _percent,
            "bytes": bytes_words,
            "number": number_words,
            "shell": names.command_line,
            "region": title,
            "on_pages": on_pages,
            "site": words,
            "code": code_words,
            "cost": cost_words,
            "way": lambda way: _WAYS.get(way, way),
            "count": units.count,
            "left": lambda line: _percent(_left(line.huge_walks, line.walks)),
            "touch": _touch_words,
        }
    )
    template = environment.from_string(data("review", "report.html").read_text(encoding="utf-8"))
    return template.render(
        review=review,
        decisions=Counter(row.decision for row in review.rows).items(),
        end_words=_ENDS[review.policy.decide_on],
        figure=gains(review),
        hosts=list(_hosts(review, calibrations or {})),
        accuracy=list(_accuracy(review)),
        python=platform.python_version(),
        versions=sorted({row.estimated_by for row in review.rows if row.estimated_by}),
    )


def _visible(value: object) -> object:
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "\n".join(visible(line) for line in value.split("\n"))


def _percent(part: float | None) -> str:
    return units.NOT_OBTAINED if part is None else units.percent(part)


def _left(huge_walks: int | None, walks: int) -> float | None:
    return None if huge_walks is None or not walks else huge_walks / walks


def _touch_words(cost: tuple[Interval | None, Interval | None]) -> str:
    huge, base = (units.NOT_OBTAINED if each is None else units.time(each.value) for each in cost)
    return f"{huge}, of a base page {base}"


def _hosts(review: ReviewDocument, calibrations: Mapping[str, Obtained]) -> Iterator[_Host]:
    pools = {pool.machine: pool for pool in review.pools}
    for number, machine in enumerate(review.machines, start=1):
        obtained = calibrations.get(machine.name)
        calibration = None if obtained is None else presentable(obtained.calibration)
        costs = () if calibration is None else calibration.costs
        sizes = tuple(sorted({cost.page_size_bytes for cost in costs if cost.page_size_bytes}))
        yield _Host(
            machine=machine,
            budget=_budget(review, pools.get(machine.name)),
            sizes=sizes,
            costs=() if calibration is None else tuple(_costs(calibration, sizes)),
            figure=None if obtained is None else curve(obtained, number),
            has_curve=obtained is not None and bool(obtained.curve),
        )


def _accuracy(review: ReviewDocument) -> Iterator[tuple[str, str, TrackRecord, str]]:
    """Where, by what, the record, and of which machine it is; elsewhere where none is of these."""
    for machine in review.machines:
        for way, record in machine.accuracy.items():
            where = "this machine" if record.here else "another machine with this CPU"
            yield machine.name, way, record, where
    if not any(machine.accuracy for machine in review.machines):
        for name, records in shipped_track_records().items():
            for way, record in records.items():
                yield name, way, record, "another CPU"


def _budget(review: ReviewDocument, pool: HostPool | None) -> _Budget | None:
    if pool is None:
        return None
    asked = (row for row in review.rows if row.machine == pool.machine and row.pool_bytes)
    rows = tuple(row for row in asked if row.decision == "adopt" or row.service in pool.left_out)
    part = None if not pool.memory_bytes else pool.needed_bytes / pool.memory_bytes
    return _Budget(pool, rows, part)


def _costs(
    calibration: Calibration, sizes: tuple[int, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for quantity, what, access in _COSTS:
        cells = []
        for size in sizes:
            intervals = [
                c.interval for c in find(calibration, quantity, size, access) if c.interval
            ]
            cells.append(_range(quantity, intervals))
        yield what, tuple(cells)


def _range(quantity: str, found: list[Interval]) -> str:
    if not found:
        return units.NOT_OBTAINED
    low, high = min(found, key=_value), max(found, key=_value)
    if low is not high:
        return f"{_in_units(quantity, low.value)} to {_in_units(quantity, high.value)}"
    words = f"{_in_units(quantity, low.low)} to {_in_units(quantity, low.high)}"
    return f"{_in_units(quantity, low.value)} ({words})"


def _value(interval: Interval) -> float:
    return interval.value


def _in_units(quantity: str, value: float) -> str:
    return units.time(value) if quantity.endswith("_ns") else f"{value:,.0f}"


def gains(review: ReviewDocument) -> Markup | None:
    """The forest plot; None: there are no gains. Raises TlbcostError: gnuplot cannot draw."""
    if all(row.gain_fraction is None for row in review.rows):
        return None
    return _drawn(
        "gains", lambda file: draw_by("review.gp", lambda folder: _settings(review, folder), file)
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
