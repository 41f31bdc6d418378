# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the JSON follow its schema, and say what the text says?"""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from builders.answer import altered, estimated, overlapped
from builders.report import bare, json_of, text_of
from builders.tree import SCHEMAS
from tlbcost.accuracy.record import TrackRecord
from tlbcost.answer.record import Estimate
from tlbcost.answer.words import next_steps, verdict_sentence

SCHEMA = SCHEMAS / "estimate.schema.json"

UNITS = ("_ns", "_bytes", "_pages", "_entries", "_fraction", "_ratio")

# Keys that hold no quantity, or a plain count.
PLAIN = {
    "schema", "tlbcost_version", "date", "argv", "path", "source", "notes", "access", "program",
    "code", "sentence", "remedy", "exit_code", "simulated_exit_code", "pid", "parent_pid",
    "threads", "entries", "ways", "minor_faults", "major_faults", "l1_tlb_misses", "stlb_hits",
    "stlb_misses", "bound_capped", "has_pmu", "thp_mode", "kernel", "governor", "hypervisor",
    "microcode", "cpu_vendor", "cpu_family", "cpu_model", "cpu_stepping", "cpu_name",
    "next_steps", "value", "low", "high", "source_kind", "programs", "inside", "here", "windows",
    "references", "sampled_references",
}  # fmt: skip


@pytest.mark.parametrize("shown", [estimated(), estimated(0), bare(), overlapped(estimated())])
def test_json_follows_its_schema(shown: Estimate) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(json_of(shown)), schema)


def test_schema_refuses_what_is_not_a_report() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    report = json.loads(json_of(estimated()))
    report["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema)


def test_every_json_key_carries_its_unit() -> None:
    def check(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                holds_figure = isinstance(inner, (int, float)) and not isinstance(inner, bool)
                assert not holds_figure or key in PLAIN or key.endswith(UNITS), key
                check(inner)
        elif isinstance(value, list):
            for inner in value:
                check(inner)

    check(json.loads(json_of(estimated())))
    check(json.loads(json_of(overlapped(estimated()))))


def test_json_and_text_say_the_same() -> None:
    c = estimated()
    report = json.loads(json_of(c))
    verdict = report["verdict"]
    assert verdict["sentence"] == verdict_sentence(c)
    assert verdict["sentence"][:40] in text_of(c)
    assert report["next_steps"] == next_steps(c)


def test_the_record_of_this_machine_is_quoted() -> None:
    tried = TrackRecord(True, "2026-01-01T00:00:00Z", 16, 12, 0.0812, 0.264)
    shown = altered(estimated(), track_record=tried)
    text = " ".join(text_of(shown).split())
    assert "On 16 programs run on this machine the expected gain of cheaper TLB misses" in text
    assert "was off by 8.1 points on average and 26.4 at most; 12 were within" in text
    assert "on 16 programs on this machine the TLB part was off by 8.1 points" in text
    other = text_of(altered(shown, track_record=replace(tried, here=False)))
    assert "programs run on a machine with this CPU" in " ".join(other.split())
    assert json.loads(json_of(shown))["tried"]["mean_error_fraction"] == 0.0812
    jsonschema.validate(json.loads(json_of(shown)), json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert "run on this machine" not in text_of(estimated())


def test_absent_is_null_in_json() -> None:
    report = json.loads(json_of(bare()))
    assert report["fault_fraction"] is None
    assert report["fault_saved_ns"] is None
    assert report["costs"][1]["walk_serial_ns"] is None
    assert report["simulation"]["geometry"][1]["stlb"] is None
    assert report["simulation"]["processes"][1]["counts"] is None
    assert report["simulation"]["processes"][1]["touched"] is None
