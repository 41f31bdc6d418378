# SPDX-License-Identifier: GPL-2.0-or-later
"""A review as text, CSV, Markdown and JUnit, and the comparison of two."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, TextIO
from xml.etree import ElementTree

from tlbcost.common import units
from tlbcost.common.console import print_whole, table
from tlbcost.common.interval import Interval
from tlbcost.report.lines import markdown, visible, wrapped
from tlbcost.review.document import HostPool, ReviewDocument, ReviewRow
from tlbcost.review.gate import ReviewComparison

if TYPE_CHECKING:
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


def bytes_words(found: int | None) -> str:
    return units.NOT_OBTAINED if found is None else units.size(found)


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
            gain_words(row.gain_fraction), bytes_words(row.growth_bytes),
            number_words(row.hosts_saved),
            money if row.currency is None else f"{money} {markdown(row.currency)}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    lines += [
        f"- **{row.decision}** {markdown(name_of(row))}: {markdown(row.why)}" for row in review.rows
    ]
    lines += [f"- {markdown(pool_words(pool))}" for pool in review.pools if pool.needed_bytes]
    lines += _steps(review)
    if review.broken:
        lines += ["", "### Broken rules", ""]
        lines += [
            f"- `{rule.rule}` {markdown(f'{rule.service} on {rule.machine}: {rule.why}')}"
            for rule in review.broken
        ]
    lines += ["", f"tlbcost {review.tlbcost_version}, {review.date}; 90 % intervals."]
    return "\n".join(lines) + "\n"


def _steps(review: ReviewDocument) -> list[str]:
    lines: list[str] = []
    for row in review.rows:
        if row.decision == "adopt" and row.remedy is not None:
            # An indented block needs no fence that a step could end.
            lines += ["", f"{markdown(name_of(row))}: {markdown(row.remedy.words)}", ""]
            lines += [f"    {visible(step)}" for step in row.remedy.steps]
    return lines


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
