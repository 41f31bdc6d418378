# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a review written for other programs: CSV, Markdown for a pull request, JUnit for CI?"""

from __future__ import annotations

import shlex
from xml.etree import ElementTree

from tlbcost.report.lines import markdown, visible
from tlbcost.review.document import ReviewDocument, ReviewRow
from tlbcost.review.text import bytes_words, gain_words, name_of, number_words, pool_words


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
    """The decision table, and below it what is to be done."""
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
