# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the library answer as the command does, and print nothing?"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import tlbcost
from builders.tree import GOLDEN, TREE
from tlbcost.common.document import to_json
from tlbcost.common.errors import TlbcostError

PROGRAM = ["sort", "/dev/null"]


def test_an_estimate_has_its_parts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if not (TREE / "build/libexec/valgrind").exists() or not shutil.which("valgrind"):
        pytest.skip("needs valgrind, and build/libexec (make)")
    costs = GOLDEN / "calibration.tsv"
    found = tlbcost.estimate(PROGRAM, measured=False, engine="valgrind", calibration=costs)
    assert found.verdict == found.document.verdict.code
    assert found.gain.low <= found.gain.value <= found.gain.high
    assert found.growth is None
    assert {"kind", "name", "size_bytes"} <= set(found.regions.columns)
    assert found.document.program.argv == tuple(PROGRAM)
    written = tmp_path / "found.json"
    written.write_text(to_json(found.document))
    same = tlbcost.compare(found, written)
    assert not same.verdict_changed
    assert capfd.readouterr() == ("", "")


def test_errors_are_raised_with_their_exit_code() -> None:
    with pytest.raises(TlbcostError) as error:
        tlbcost.estimate(["/nowhere/app"])
    assert error.value.exit_code == 127
    with pytest.raises(TlbcostError) as error:
        tlbcost.trials(["/nowhere/app"])
    assert error.value.exit_code == 127
    with pytest.raises(AttributeError):
        _ = tlbcost.nothing
