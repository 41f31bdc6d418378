# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a mistake of ours one line for the user, and its traceback in a file that is his alone?"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tlbcost import __main__ as cli
from tlbcost.common import crash

PACKAGE = Path(cli.__file__).parents[1]


def broken(error: str = "KeyError('cycles')") -> str:
    """A program that is tlbcost with a mistake in one command."""
    return (
        f"import sys; sys.path.insert(0, {str(PACKAGE)!r})\n"
        "from tlbcost import __main__ as cli\n"
        "from tlbcost.commands import machines\n"
        "def run(arguments):\n"
        f"    raise {error}\n"
        "machines.run = run\n"
        "sys.exit(cli.main(['machines']))\n"
    )


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**kept, **environment},
    )  # fmt: skip


def test_one_line_names_the_report_and_the_exit_code_is_70(tmp_path: Path) -> None:
    done = run(broken(), XDG_STATE_HOME=str(tmp_path))
    (report,) = (tmp_path / "tlbcost").iterdir()
    assert done.returncode == 70
    assert done.stdout == ""
    said = f"tlbcost: internal error: KeyError: 'cycles'; please report it with {report}\n"
    assert done.stderr == said
    text = report.read_text()
    assert "Traceback (most recent call last)" in text
    assert text.startswith("tlbcost ")
    assert report.stat().st_mode & 0o777 == 0o600
    assert report.parent.stat().st_mode & 0o777 == 0o700


def test_without_a_state_folder_it_is_in_the_home(tmp_path: Path) -> None:
    run(broken(), XDG_STATE_HOME="not/absolute", HOME=str(tmp_path))
    assert len(list((tmp_path / ".local" / "state" / "tlbcost").iterdir())) == 1


def test_where_the_home_cannot_be_written_it_is_a_temporary_file(tmp_path: Path) -> None:
    done = run(broken(), XDG_STATE_HOME="/proc", TMPDIR=str(tmp_path))
    (report,) = tmp_path.iterdir()
    assert done.stderr.endswith(f"please report it with {report}\n")
    assert report.stat().st_mode & 0o777 == 0o600


def test_where_no_report_can_be_written_the_line_says_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    try:
        {}["cycles"]
    except KeyError as error:
        line = crash.describe(error, Path("/proc"))
    assert "internal error: KeyError: 'cycles' (test_crash.py, line " in line
    assert "in test_where_no_report_can_be_written_the_line_says_where); no report" in line
    assert "\n" not in line


def test_a_message_of_many_lines_and_escapes_is_one_line(tmp_path: Path) -> None:
    done = run(broken(r"ValueError('a\n\x1b[31mb\nc')"), XDG_STATE_HOME=str(tmp_path))
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def test_a_thread_and_a_destructor_print_no_traceback(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(PACKAGE)!r})\n"
        "import threading\n"
        "from tlbcost import __main__ as cli\n"
        "from tlbcost.commands import machines\n"
        "class Bad:\n"
        "    def __del__(self): raise KeyError('late')\n"
        "def run(arguments):\n"
        "    Bad()\n"
        "    thread = threading.Thread(target=lambda: {}['cycles'])\n"
        "    thread.start(); thread.join()\n"
        "    return 0\n"
        "machines.run = run\n"
        "sys.exit(cli.main(['machines']))\n"
    )
    done = run(code, XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stderr.count("internal error: KeyError: 'cycles'") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_under_sudo_it_belongs_to_the_user_who_called_it() -> None:
    # pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        done = run(broken(), XDG_STATE_HOME=name, SUDO_UID="65534", SUDO_GID="65534")
        (report,) = (Path(name) / "tlbcost").iterdir()
        assert done.returncode == 70
        assert report.stat().st_uid == 65534
