# SPDX-License-Identifier: GPL-2.0-or-later
"""Does `tlbcost events` list what the tables hold?"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import jsonschema
import pytest
from builders.tree import MACHINES, SCHEMAS
from tlbcost.commands import events as command
from tlbcost.common.errors import TlbcostError
from tlbcost.processors.event_tables import all_pmus, generic_pmu
from tlbcost.processors.events import Pmu

PMUS = all_pmus()


SCHEMA = json.loads((SCHEMAS / "events.schema.json").read_text("utf-8"))


def by_key(pmu: Pmu) -> str:
    return pmu.key


def run(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args(options)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("pmu", PMUS, ids=by_key)
def test_report_and_json(pmu: Pmu, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--pmu", pmu.key, "--json", str(tmp_path / "events.json"))
    assert max(len(line) for line in out.splitlines()) <= 80
    for event in pmu.events:
        assert re.search(rf"^{re.escape(event.name)} ", out, re.MULTILINE)
        assert f"{event.code:#x}" in out
    document = json.loads((tmp_path / "events.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, SCHEMA)
    assert [event["name"] for event in document["events"]] == [e.name for e in pmu.events]
    assert document["formulas"] == pmu.formulas


def test_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_one_role(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--pmu", "skl", "--role", "walk_active_cycles")
    assert "walk_active_cycles.fetch" in out
    assert "0x1001008" in out
    assert "\ninstructions" not in out


@pytest.mark.parametrize(
    ("options", "message", "exit_code"),
    [
        (["--role", "nonsense"], "no role is called 'nonsense'", 2),
        (["--pmu", "zen4", "--role", "walk_active_cycles"], "has no event of the role", 4),
        (["--pmu", "zen9"], "no event table is called 'zen9'", 2),
        (["--list", "--pmu", "zen4"], "--list excludes all other options", 2),
        (["--json", "/nowhere/at/all.json"], "cannot write /nowhere/at/all.json", 1),
    ],
)
def test_refusals(options: list[str], message: str, exit_code: int) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with pytest.raises(TlbcostError) as caught:
        command.run(parser.parse_args(options))
    assert message in str(caught.value)
    assert caught.value.exit_code == exit_code


def test_the_machines_own_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(MACHINES / "zen3"))
    assert run(capsys).startswith("AMD Zen 3 (amd64_fam19h_zen3)\n")
    # A machine that tells nothing has the kernel's own events, and this is said.
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    out = " ".join(run(capsys).split())
    assert "No table is of this CPU" in out
    assert "No hardware counter can be read here" in out
    assert generic_pmu().name in out


def test_list_has_every_name(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "--list")
    assert max(len(line) for line in out.splitlines()) <= 80
    for pmu in PMUS:
        assert re.search(rf"^{pmu.key} ", out, re.MULTILINE)
        for alias in pmu.aliases:
            assert alias in out
