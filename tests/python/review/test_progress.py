# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a terminal show what runs now and for how long, and is --quiet quiet?"""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from builders.tree import TREE

PROGRAM = TREE / "build" / "tlbcost"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PROGRAM.exists(), reason="needs build/tlbcost (make)"),
]

# Both end at once, since neither program is there.
PLAN = """
[[services]]
name = "first [bold]"
command = ["./no-such-program"]
[[services]]
name = "second"
command = ["./no-such-program"]
"""


def review(folder: Path, *options: str, stderr: int) -> None:
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "TLBCOST_MEASURE": "no"}
    done = subprocess.run(
        [PROGRAM, "review", *options, "plan.toml"], cwd=folder, env=environment, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0


def on_a_terminal(folder: Path, *options: str) -> str:
    """What a terminal on standard error gets."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            review(folder, *options, stderr=theirs)
        finally:
            os.close(theirs)
        text = b""
        while True:
            try:
                part = terminal.read(65536)
            except OSError:
                # Linux reports the end of a terminal as an error.
                break
            if not part:
                break
            text += part
    return text.decode()


def test_a_terminal_has_a_bar_with_what_runs_and_how_long(tmp_path: Path) -> None:
    text = on_a_terminal(tmp_path)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "━" in plain
    for words in ("0/2", "first [bold] on here", "1/2", "second on here"):
        assert words in plain
    assert re.search(r"\d:\d\d:\d\d|-:--:--", plain)
    # The bar is gone in the end: the line is cleared, and the cursor is back.
    assert text.rstrip("\r\n").endswith("\x1b[2K")
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_a_quiet_review_says_nothing(tmp_path: Path) -> None:
    assert on_a_terminal(tmp_path, "--quiet") == ""


def test_a_file_has_a_line_for_each(tmp_path: Path) -> None:
    file = tmp_path / "said"
    with file.open("wb") as said:
        review(tmp_path, stderr=said.fileno())
    assert file.read_text(encoding="utf-8").splitlines() == [
        "tlbcost: 1 of 2: first [bold] on here",
        "tlbcost: 2 of 2: second on here",
    ]
