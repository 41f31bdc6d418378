# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the doctor show which defaults the user has set?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.host import Host
from tlbcost.doctor.check import Check
from tlbcost.doctor.report import text_of


@pytest.fixture
def file(host: Host, tmp_path: Path) -> Path:
    host.monkeypatch.delenv("TLBCOST_CONFIG")
    host.monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "tlbcost").mkdir()
    return tmp_path / "tlbcost" / "config.toml"


def found(host: Host) -> Check:
    return host.checks()["configuration"]


def test_without_a_file_it_says_where_one_would_be(host: Host, file: Path) -> None:
    check = found(host)
    assert (check.state, check.finding) == ("ok", f"none: there is no {file}")
    assert check.finding not in text_of([check], 200, details=False)


def test_what_the_file_sets_is_shown_without_details_too(host: Host, file: Path) -> None:
    file.write_text('runs = 5\n[trial]\nengine = "copies"\n', encoding="utf-8")
    check = found(host)
    assert check.state == "ok"
    assert check.values == {"config_file": str(file), "runs": "5", "trial.engine": "copies"}
    assert f"{file}: runs 5, trial.engine copies" in text_of([check], 300, details=False)


def test_a_wrong_file_is_said_and_the_rest_is_checked(host: Host, file: Path) -> None:
    file.write_text("runz = 5\n", encoding="utf-8")
    check = found(host)
    assert check.state == "limited"
    assert check.finding.startswith(f"{file}: runz: there is no such key")
    file.chmod(0o666)
    assert found(host).finding == f"{file} is not used: others may write to it"
