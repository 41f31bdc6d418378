# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the gauges of an estimate its values, and does the dashboard ask for what there is?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from builders.memory import document, row
from builders.openmetrics import families
from builders.report import made_up
from tlbcost.answer.document import estimate_document
from tlbcost.live.document import openmetrics
from tlbcost.report.gauges import gauges

DASHBOARD = Path(__file__).parents[3] / "data" / "grafana" / "tlbcost.json"


@pytest.mark.parametrize("name", made_up())
def test_gauges_are_the_values_of_the_document(name: str) -> None:
    shown = estimate_document(made_up()[name])
    found = families(gauges(shown))
    gain = {labels["end"]: value for labels, value in found["tlbcost_gain_ratio"]}
    total = shown.total_fraction
    assert gain == {"low": total.low, "value": total.value, "high": total.high}
    [(labels, value)] = found["tlbcost_verdict"]
    assert (labels["verdict"], value) == (shown.verdict.code, 1)
    assert ("tlbcost_walk_ratio" in found) == (shown.counters is not None)
    measured = shown.measured
    assert ("tlbcost_growth_bytes" in found) == bool(measured and measured.growth_bytes)
    assert ("tlbcost_first_touch_seconds" in found) == (shown.stalls is not None)


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    text = "".join(gauges(estimate_document(each)) for each in made_up().values())
    there = set(re.findall(r"# TYPE (\S+)", text + openmetrics(document(row()))))
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    asked = {
        name
        for panel in panels
        for target in panel["targets"]
        for name in re.findall(r"\b(?:tlbcost|system)_\w+", target["expr"])
    }
    assert len(asked) > 8
    assert asked <= there | {"tlbcost_growth_bytes", "tlbcost_first_touch_seconds"}
