# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the calibrator end with us, and are its failures told in its own words?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.tree import TREE
from tlbcost.calibration import calibrator
from tlbcost.calibration.calibrator import run_calibrator
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError

SAMPLES = TREE / "data" / "samples" / "emerald-rapids-guest" / "samples.tsv"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of the calibrator."""
    path = tmp_path / "probe"
    monkeypatch.setattr(calibrator, "libexec", lambda _: path)
    return path


def run(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    run_calibrator(["--measure", "near"], 2.5, None)


def test_options_progress_and_samples_pass(program: Path) -> None:
    words = "--measure near --time-limit 2.50 --output - --progress-fd"
    program.write_text(f'#!/bin/bash\n[[ $* == "{words} "* ]] || exit 9\n'
                       f'echo progress 50 >&"${{@: -1}}"\ncat {SAMPLES}\n')  # fmt: skip
    program.chmod(0o755)
    percents: list[int] = []
    table = run_calibrator(["--measure", "near"], 2.5, percents.append)
    assert percents == [50]
    assert table.complete
    assert table.rows


def test_its_own_words_are_told(program: Path) -> None:
    script = "echo 'tlbcost: no room: 3 MiB' >&2; echo 'tlbcost: hint: buy some' >&2; exit 4"
    with pytest.raises(TlbcostError, match=r"^no room: 3 MiB$") as caught:
        run(program, script)
    assert caught.value.exit_code == CANNOT_MEASURE
    assert caught.value.hint == "buy some"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("kill -9 $$", "killed by SIGKILL"),
        ("exit 1", "no reason was given"),
        (f"head -c 3000 {SAMPLES}", "expected|truncated"),
        ("echo garbage", "not a tlbcost samples table"),
    ],
)
def test_failures_are_told(program: Path, script: str, words: str) -> None:
    with pytest.raises(TlbcostError, match=words):
        run(program, script)


def test_a_probe_that_is_missing_has_a_hint(program: Path) -> None:
    with pytest.raises(TlbcostError, match="cannot run") as caught:
        run_calibrator([], 1, None)
    assert caught.value.hint
    assert not program.exists()
