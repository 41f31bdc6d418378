# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the calibrator end with us, and are its failures reported in its own words?"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from builders.tree import BUILD, TREE
from tlbcost.calibration import calibrator
from tlbcost.calibration.calibrator import run_calibrator
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError

# Starts what its arguments say, says its number, and waits to be killed.
PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[2:], pass_fds=[int(sys.argv[1])], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
child.wait()
"""
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


def test_its_own_words_are_reported(program: Path) -> None:
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
def test_failures_are_reported(program: Path, script: str, words: str) -> None:
    with pytest.raises(TlbcostError, match=words):
        run(program, script)


def test_a_probe_that_is_missing_has_a_hint(program: Path) -> None:
    with pytest.raises(TlbcostError, match="cannot run") as caught:
        run_calibrator([], 1, None)
    assert caught.value.hint
    assert not program.exists()


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_a_calibrator_whose_tlbcost_is_killed_does_not_run_on() -> None:
    """Even if somebody else has the other end of its pipe."""
    probe = BUILD / "libexec" / "tlbcost-calibrate"
    if not probe.exists():
        pytest.skip("tlbcost-calibrate is not built: make all")
    reader, writer = os.pipe()
    words = [str(probe), "--measure", "near", "--sweeps", "100000", "--time-limit", "3000"]
    words += ["--progress-fd", str(writer)]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(writer), *words],
        pass_fds=[writer],
        stdout=subprocess.PIPE,
    ) as parent:
        os.close(writer)
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        # Its first progress: from now on it is the calibrator.
        assert os.read(reader, 1)
        assert runs(pid)
        parent.kill()
        parent.wait()
    for _ in range(600):
        if not runs(pid):
            break
        time.sleep(0.1)
    else:
        os.kill(pid, 9)
        pytest.fail("it still runs a minute later")
    os.close(reader)
