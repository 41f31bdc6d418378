# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import json

import jsonschema
import pytest
from builders.answer import estimated
from builders.tree import SCHEMAS
from builders.trial import METHOD, made_trials, pair
from tlbcost.common.document import to_json
from tlbcost.model.gain import PredictedGain
from tlbcost.trial.comparison import judge
from tlbcost.trial.document import trial_document


@pytest.mark.parametrize("estimate", [None, estimated().gain])
def test_json_follows_its_schema(estimate: PredictedGain | None) -> None:
    unproven = judge(METHOD, (pair(0.8, None), pair(0.8, 0.1), pair(0.8, 0.1)))
    report = made_trials(judge(METHOD, (pair(0.8),) * 5), unproven, estimate=estimate)
    document = json.loads(to_json(trial_document(report)))
    schema = json.loads((SCHEMAS / "trial.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    first, second = document["trials"]
    assert first["measured_fraction"]["value"] == pytest.approx(0.2)
    assert second["measured_fraction"] is None
    assert second["bloat_bytes"] is None
    assert second["pairs"][0]["huge"]["memory"] is None
    assert (document["estimate"] is None) == (estimate is None)
