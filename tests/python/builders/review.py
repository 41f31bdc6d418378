# SPDX-License-Identifier: GPL-2.0-or-later
"""Plans, and results of their services, made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from builders.answer import altered, estimated
from builders.report import advised
from tlbcost.answer.document import estimate_document
from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.review.plan import Plan, read_plan
from tlbcost.review.task import TaskResult

HOSTILE = '<script>alert("1")</script> | `x` \x1b[31m\n\u202eRTL' + "x" * 500


def plan_of(folder: Path, text: str) -> Plan:
    """The plan with this text."""
    file = folder / "plan.toml"
    file.write_text(text, encoding="utf-8")
    return read_plan(file)


def worth_it() -> EstimateDocument:
    """A program whose heap misses, with remedies."""
    return estimate_document(advised(("./app",)))


def worthless() -> EstimateDocument:
    """A program that does not miss."""
    return estimate_document(estimated(0))


def there_already() -> EstimateDocument:
    """A program on huge pages."""
    made = estimated()
    return estimate_document(altered(made, gain=replace(made.gain, verdict="already_huge")))


def result(
    service: str,
    estimate: EstimateDocument | None,
    machine: str = "here",
    failure: str | None = None,
) -> TaskResult:
    """What a task left."""
    return TaskResult(
        service=service, machine=machine, plan="0", date="2026-01-01T00:00:00Z", seconds=1.5,
        command=("tlbcost", "estimate", "--", "./app"), failure=failure, estimate=estimate,
    )  # fmt: skip
