# SPDX-License-Identifier: GPL-2.0-or-later
"""Lanes of tests/run, and how they end; tests/bats/run.bats has the results."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.tree import TREE

MARK = "TLBCOST_TESTS_RUNNER"
# What a test has to do with settings: a word of its text, unless the machine is a made-up one. A
# program is worth trying only if it does not run on huge pages already.
SETTINGS = re.compile(
    r"(?<!=)worth_trying|/sys/kernel/mm/|/proc/sys/kernel/perf_event_paranoid|nr_hugepages"
    r"|tlbcost\" (?:pool reserve|trial|validate|pagesizes|calibrate)\b"
)
MADE_UP = re.compile(r"TLBCOST_ROOT=")
TAGS = re.compile(r"^# bats (file|test)_tags=(.*)$", re.MULTILINE)


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    """A folder of tests that has one bats file; `bats` writes others."""
    if shutil.which("bats") is None:
        pytest.skip("needs bats")
    (tmp_path / "tests/bats").mkdir(parents=True)
    return tmp_path / "tests"


def bats(tests: Path, name: str, *bodies: str, head: str = "") -> None:
    text = "".join(f'@test "{name} {i}" {{\n{body}\n}}\n' for i, body in enumerate(bodies, 1))
    (tests / "bats" / f"{name}.bats").write_text(f"{head}\n{text}", encoding="utf-8")


def command(tests: Path, *kinds: str) -> list[str]:
    return [
        *(sys.executable, str(TREE / "tests/run")),
        *("--tests", str(tests), "--build", str(tests), *kinds),
    ]


def ran(tests: Path, *kinds: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a run."""
    done = subprocess.run(
        command(tests, *kinds), capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def await_(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.02)


def has_ended(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_settings_are_changed_one_test_at_a_time_and_others_run_alongside(tests: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor has one lane")
    # Each of two waits for a sign of the other lane, and finds no other of its own lane at work.
    for name, sign, other in (("one", "a", "b"), ("two", "c", "d")):
        body = f"""[[ ! -e {tests}/changed ]]
            : >{tests}/changed
            : >{tests}/{sign}
            for i in {{1..600}}; do [[ ! -e {tests}/{other} ]] || break; sleep 0.1; done
            [[ -e {tests}/{other} ]]
            rm {tests}/changed"""
        bats(tests, name, body, head="# bats file_tags=settings")
        plain = f"""for i in {{1..600}}; do [[ ! -e {tests}/{sign} ]] || break; sleep 0.1; done
            [[ -e {tests}/{sign} ]]
            : >{tests}/{other}"""
        bats(tests, f"{name}-plain", plain)
    code, lines = ran(tests, "bats")
    assert (code, lines[-1]) == (0, "4 passed, 0 failed, 0 skipped")


def test_what_is_left_running_fails_and_is_ended(tests: Path) -> None:
    bats(tests, "leaves", f"setsid sleep 98765 3>&- >&- 2>&- &\necho $! >{tests}/pid")
    code, lines = ran(tests, "bats")
    pid = int((tests / "pid").read_text(encoding="utf-8"))
    assert has_ended(pid)
    assert (code, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped")
    assert any("left processes behind: " in line and "(sleep 98765)" in line for line in lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_lanes_and_settings_are_put_back(
    tests: Path, number: signal.Signals
) -> None:
    # As the tests that change settings do: what puts them back waits for the test's end.
    keeper = f"""local test=${{BASHPID}}
        (
            trap '' INT TERM HUP
            exec 3>&- >/dev/null 2>&1
            : >{tests}/keeps
            while kill -0 "${{test}}"; do sleep 0.05; done
            rm {tests}/changed
        ) &
        # On a busy machine the signal could come before it is ignored.
        until [[ -e {tests}/keeps ]]; do sleep 0.05; done
        : >{tests}/changed
        echo $$ >{tests}/settings
        sleep 98765"""
    bats(tests, "changes", keeper, head="# bats file_tags=settings")
    bats(tests, "waits", f"setsid sleep 98765 3>&- &\necho $! >{tests}/other\nsleep 98765")
    temporary = tests / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        command(tests, "bats"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    signs = [tests / "settings"]
    if len(os.sched_getaffinity(0)) > 1:
        signs.append(tests / "other")
    await_(lambda: all(sign.exists() and sign.read_text() for sign in signs))
    process.send_signal(number)
    printed, words = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert words == f"tlbcost: tests ended by {number.name}\n"
    assert " passed" not in printed
    assert not (tests / "changed").exists()
    assert all(has_ended(int(sign.read_text(encoding="utf-8"))) for sign in signs)
    mark = f"{MARK}={process.pid}-".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            assert mark not in (folder / "environ").read_bytes()
        except OSError:
            continue
    assert list(temporary.iterdir()) == []


def parts(file: Path) -> list[tuple[str, str]]:
    """The tests of a bats file, each with its tags."""
    found, tags = [], ""
    for block in re.split(r"^(?=@test |# bats test_tags=)", file.read_text("utf-8"), flags=re.M):
        if block.startswith("# bats test_tags="):
            tags = block
            continue
        if block.startswith("@test "):
            found.append((tags, block))
        tags = ""
    return found


def test_what_has_to_do_with_settings_is_tagged() -> None:
    missing = []
    for file in sorted((TREE / "tests/bats").glob("*.bats")):
        tags_of_file = TAGS.findall(file.read_text(encoding="utf-8"))
        if any(kind == "file" and "settings" in tags for kind, tags in tags_of_file):
            continue
        for tags, text in parts(file):
            lines = [line for line in text.splitlines() if not MADE_UP.search(line)]
            if SETTINGS.search("\n".join(lines)) and "settings" not in tags:
                missing.append(f"{file.name}: {text.splitlines()[0]}")
    assert missing == []
    for file in sorted((TREE / "tests/python").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "with system_settings(" in text and not re.search("TLBCOST_ROOT|root: Path", text):
            assert re.search(r"^pytestmark = .*mark\.settings", text, re.M), file
