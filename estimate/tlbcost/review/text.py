# SPDX-License-Identifier: GPL-2.0-or-later
"""A review as text, CSV, Markdown, JUnit and one HTML file, and the comparison of two."""

from __future__ import annotations

import platform
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from xml.etree import ElementTree

from tlbcost.accuracy.record import TrackRecord, shipped_track_records
from tlbcost.attribution.document import words
from tlbcost.calibration.consistency import presentable
from tlbcost.calibration.document import draw
from tlbcost.calibration.records import Access, Calibration, Obtained, find, reported_figures
from tlbcost.common import names, units
from tlbcost.common.console import print_whole, table
from tlbcost.common.errors import TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.gnuplot import draw_gains
from tlbcost.common.paths import data
from tlbcost.common.units import Interval
from tlbcost.report.lines import markdown, visible, wrapped
from tlbcost.report.regions import code_words, cost_words, left_on_huge, on_pages, title
from tlbcost.review.document import HostPool, ReviewDocument, ReviewMachine, ReviewRow
from tlbcost.review.gate import ReviewComparison
from tlbcost.review.plan import share

if TYPE_CHECKING:
    from markupsafe import Markup
    from rich.console import Console

_LONGEST_NAME = 28
# From here on decimals say nothing.
_WHOLE = 100


def name_of(row: ReviewRow) -> str:
    return f"{visible(row.service)} on {visible(row.machine)}"


def gain_words(gain: Interval | None) -> str:
    """A gain with its interval: '12 % (3.0 % to 20 %)'."""
    if gain is None:
        return units.NOT_OBTAINED
    return f"{units.percent(gain.value)} ({units.range_of(gain)})"


def number_words(found: Interval | None) -> str:
    if found is None:
        return units.NOT_OBTAINED
    places = 0 if abs(found.value) >= _WHOLE else 1
    low, value, high = (f"{each:,.{places}f}" for each in (found.low, found.value, found.high))
    return f"{value} ({low} to {high})"


def pool_words(pool: HostPool) -> str:
    text = f"{visible(pool.machine)}: pools need {units.size(pool.needed_bytes)} of each host"
    if pool.most_bytes is not None:
        text += f", and the policy allows {units.size(pool.most_bytes)}"
    if pool.left_out:
        text += f"; these do not fit: {', '.join(map(visible, pool.left_out))}"
    return text


def print_report(review: ReviewDocument, stream: TextIO) -> None:
    def fill(console: Console) -> None:
        rows = table("service", "machine", "decision", "gain", "hosts saved")
        for row in review.rows:
            hosts = None if row.hosts_saved is None else f"{row.hosts_saved.value:.1f}"
            rows.add_row(
                units.middle(visible(row.service), _LONGEST_NAME),
                units.middle(visible(row.machine), _LONGEST_NAME),
                row.decision,
                gain_words(row.gain_fraction),
                hosts or units.NOT_OBTAINED,
            )
        console.print(rows)
        console.print()
        for row in review.rows:
            _lines(console, f"{row.decision}: {name_of(row)}: {row.why}")
        for pool in review.pools:
            if pool.needed_bytes or pool.left_out:
                _lines(console, pool_words(pool))
        for rule in review.broken:
            where = f"{visible(rule.service)} on {visible(rule.machine)}"
            _lines(console, f"GATE {rule.rule}: {where}: {rule.why}")

    print_whole(fill, stream)


def print_comparison(found: ReviewComparison, stream: TextIO) -> None:
    """What changed since the first review; differences that noise explains are 'within'."""

    def fill(console: Console) -> None:
        rows = table("service", "machine", "first", "second", "change")
        for row in found.rows:
            rows.add_row(
                units.middle(visible(row.service), _LONGEST_NAME),
                units.middle(visible(row.machine), _LONGEST_NAME),
                gain_words(row.first),
                gain_words(row.second),
                row.change,
            )
        console.print(rows)
        for row in found.rows:
            first, second = row.decisions
            if first != second:
                who = f"{visible(row.service)} on {visible(row.machine)}"
                _lines(console, f"{who}: {first or 'not there'}, now {second or 'not there'}")

    print_whole(fill, stream)


def _lines(console: Console, text: str) -> None:
    for line in wrapped(text, console.width, "", "  "):
        console.print(line, soft_wrap=True)


def to_csv(review: ReviewDocument) -> str:
    """One line for each row of the decision table; what was not obtained is empty."""
    import pandas as pd

    records = [
        {
            "service": visible(row.service),
            "machine": visible(row.machine),
            "decision": row.decision,
            "why": visible(row.why),
            **_interval("gain_fraction", row),
            **_interval("translation_fraction", row),
            **_interval("fault_fraction", row),
            "bound_fraction": row.bound_fraction,
            "growth_bytes": row.growth_bytes,
            "pool_bytes": row.pool_bytes,
            **_interval("hosts_saved", row),
            **_interval("saved_per_year", row),
            "memory_per_year": row.memory_per_year,
            "currency": row.currency,
            "remedy": None if row.remedy is None else row.remedy.code,
        }
        for row in review.rows
    ]
    # Whole numbers stay whole where some are missing.
    frame = pd.DataFrame(records).astype({"growth_bytes": "Int64", "pool_bytes": "Int64"})
    return frame.to_csv(index=False, lineterminator="\n")


def _interval(name: str, row: ReviewRow) -> dict[str, float | None]:
    found = getattr(row, name)
    ends = {"": "value", "_low": "low", "_high": "high"}
    return {f"{name}{suffix}": found and getattr(found, end) for suffix, end in ends.items()}


def to_markdown(review: ReviewDocument) -> str:
    lines = [
        "## Huge pages: capacity review",
        "",
        "| service | machine | decision | gain | memory added | hosts saved | saved per year |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in review.rows:
        money = number_words(row.saved_per_year)
        cells = [
            markdown(row.service), markdown(row.machine), f"**{row.decision}**",
            gain_words(row.gain_fraction), units.size(row.growth_bytes),
            number_words(row.hosts_saved),
            money if row.currency is None else f"{money} {markdown(row.currency)}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    lines += [
        f"- **{row.decision}** {markdown(name_of(row))}: {markdown(row.why)}" for row in review.rows
    ]
    lines += [f"- {markdown(pool_words(pool))}" for pool in review.pools if pool.needed_bytes]
    for row in review.rows:
        if row.decision == "adopt" and row.remedy is not None:
            # An indented block needs no fence that a step could end.
            lines += ["", f"{markdown(name_of(row))}: {markdown(row.remedy.words)}", ""]
            lines += [f"    {visible(step)}" for step in row.remedy.steps]
    if review.broken:
        lines += ["", "### Broken rules", ""]
        lines += [
            f"- `{rule.rule}` {markdown(f'{rule.service} on {rule.machine}: {rule.why}')}"
            for rule in review.broken
        ]
    lines += ["", f"tlbcost {review.tlbcost_version}, {review.date}; 90 % intervals."]
    return "\n".join(lines) + "\n"


def to_junit(review: ReviewDocument) -> str:
    """One test case for each row: failed by rules that are broken, an error without a result."""
    broken: dict[tuple[str, str], list[str]] = {}
    for rule in review.broken:
        why = f"{rule.rule}: {rule.why}"
        broken.setdefault((rule.service, rule.machine), []).append(why)
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name="tlbcost review")
    failures = errors = 0
    for row in review.rows:
        case = ElementTree.SubElement(
            suite, "testcase", classname=visible(row.machine), name=visible(row.service),
            time=f"{row.seconds:.3f}",
        )  # fmt: skip
        rules = broken.get((row.service, row.machine), [])
        if row.decision == "failed":
            errors += 1
            ElementTree.SubElement(case, "error", message=visible(row.why), type="failed")
        elif rules:
            failures += 1
            message = visible("; ".join(rules))
            ElementTree.SubElement(case, "failure", message=message, type="gate")
        out = ElementTree.SubElement(case, "system-out")
        # What XML 1.0 cannot hold is not printable, and so escaped.
        out.text = visible(f"{row.decision}: {row.why}; {shlex.join(row.command)}")
    totals = {
        "tests": str(len(review.rows)), "failures": str(failures), "errors": str(errors),
        "skipped": "0", "timestamp": review.date.removesuffix("Z"),
        "time": f"{sum(row.seconds for row in review.rows):.3f}",
    }  # fmt: skip
    for name, value in totals.items():
        suite.set(name, value)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, "unicode") + "\n"


# A name in a table; whole below.
_NAME_COLUMNS_OF_PAGE = 60
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
            "short": lambda name: units.middle(visible(name), _NAME_COLUMNS_OF_PAGE),
            "gain": gain_words,
            "share": lambda found: units.percent(None if found is None else found.value),
            "percent": units.percent,
            "bytes": units.size,
            "number": number_words,
            "shell": names.command_line,
            "region": title,
            "on_pages": on_pages,
            "site": words,
            "code": code_words,
            "cost": cost_words,
            "way": lambda way: _WAYS.get(way, way),
            "count": units.count,
            "left": left_on_huge,
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


def _touch_words(cost: tuple[Interval | None, Interval | None]) -> str:
    huge, base = (units.time(each and each.value) for each in cost)
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
    labels = [
        f"{n}. {units.middle(visible(row.service), _LONGEST_LABEL)}"
        for n, row in enumerate(review.rows, start=1)
    ]
    found = [row.gain_fraction for row in review.rows]
    least = share(review.policy.least_gain, "policy.least_gain")
    return _drawn("gains", lambda file: draw_gains(labels, found, file, least=least))


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
