# SPDX-License-Identifier: GPL-2.0-or-later
"""Are a review and the lines to deploy still written as they were?

What changes on purpose is written anew:

    TLBCOST_WRITE_GOLDEN=1 build/venv/bin/pytest tests/python/review/test_golden.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
from builders.review import by_hugetlbfs, by_malloc, by_pool, fleet_review, pooled
from builders.tree import GOLDEN, golden_json, printed
from tlbcost.common.document import to_json
from tlbcost.common.units import Interval
from tlbcost.remedies.remedy import Remedy
from tlbcost.review.deployment import snippets
from tlbcost.review.document import ReviewDocument
from tlbcost.review.gate import broken_rules, compared
from tlbcost.review.text import print_comparison, print_report, to_csv, to_junit, to_markdown

FOLDER = GOLDEN / "review"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the calibrations and the record of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")


def check(name: str, text: str) -> None:
    file = FOLDER / name
    if name.endswith(".json"):
        text = golden_json(json.loads(text)) + "\n"
    if os.environ.get("TLBCOST_WRITE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "written"),
    [("review.json", to_json), ("review.md", to_markdown), ("review.csv", to_csv),
     ("review.xml", to_junit), ("review.txt", partial(printed, print_report))],
)  # fmt: skip
def test_a_review(name: str, written: Callable[[ReviewDocument], str], tmp_path: Path) -> None:
    check(name, written(fleet_review(tmp_path)))


def changed(review: ReviewDocument) -> ReviewDocument:
    """An earlier one: the first service gained less, and another one was there."""
    first, second, *rest = review.rows
    first = msgspec.structs.replace(first, gain_fraction=Interval(0.1, 0.08, 0.12))
    second = msgspec.structs.replace(second, service="gone since")
    return msgspec.structs.replace(review, rows=[first, second, *rest])


def test_a_comparison(tmp_path: Path) -> None:
    review = fleet_review(tmp_path)
    found = compared(changed(review), review)
    found = msgspec.structs.replace(found, tlbcost_version="1.0", date="2026-01-02T03:04:05Z")
    check("comparison.json", to_json(found))
    check("comparison.txt", printed(print_comparison, found))
    broken = broken_rules(review, changed(review))
    assert [(rule.rule, rule.service) for rule in broken][-1] == ("baseline", "cache")


@pytest.mark.parametrize(
    ("name", "remedy", "instances"),
    [("variables", by_malloc(), 1), ("pool", by_pool(), 3), ("hugetlbfs", by_hugetlbfs(), 2),
     ("gigabytes", pooled(by_hugetlbfs(), 4, 1 << 30), 1)],
)  # fmt: skip
def test_lines_to_deploy(name: str, remedy: Remedy, instances: int) -> None:
    found = snippets(remedy, "cache", instances)
    parts = [f"## {s.place}: {s.file}\n## {s.source}\n{s.text}\n" for s in found]
    check(f"deploy-{name}.txt", "\n".join(parts))
