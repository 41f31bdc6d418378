# SPDX-License-Identifier: GPL-2.0-or-later
"""How wide is a report, and is it bold?"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest
from tlbcost.common.console import is_styled, print_whole, width_of


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    """One of 100 columns."""
    ours, theirs = pty.openpty()
    _resize(theirs, 100)
    with os.fdopen(theirs, "w") as file:
        yield file
    os.close(ours)


def _resize(fd: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def test_80_columns_without_a_terminal() -> None:
    assert width_of(io.StringIO()) == 80


@pytest.mark.parametrize(("columns", "width"), [(100, 100), (40, 60), (300, 120), (0, 80)])
def test_the_width_follows_the_terminal(terminal: TextIO, columns: int, width: int) -> None:
    _resize(terminal.fileno(), columns)
    assert width_of(terminal) == width


@pytest.mark.parametrize(
    ("columns", "width"), [("90", 90), ("7", 60), ("999", 120), ("x", 100), ("", 100), ("-5", 100)]
)
def test_columns_goes_before_the_terminal(
    terminal: TextIO, columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert width_of(terminal) == width


def test_bold_on_a_terminal_alone(terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_styled(terminal)
    assert not is_styled(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not is_styled(terminal)
    monkeypatch.delenv("TERM")
    assert not is_styled(terminal)


def test_what_the_user_wants_of_colour(terminal: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICOLOR_FORCE", "0")
    assert not is_styled(io.StringIO())
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert is_styled(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not is_styled(io.StringIO())
    assert not is_styled(terminal)
    monkeypatch.setenv("NO_COLOR", "")
    assert is_styled(terminal)


def test_bold_is_written_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, styled = io.StringIO(), io.StringIO()
    print_whole(lambda console: console.print("x", style="bold"), plain)
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    print_whole(lambda console: console.print("x", style="bold"), styled)
    assert plain.getvalue() == "x\n"
    assert styled.getvalue() == "\x1b[1mx\x1b[0m\n"
