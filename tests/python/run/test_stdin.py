# SPDX-License-Identifier: GPL-2.0-or-later
"""Does every run read the same standard input?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tlbcost.common.errors import TlbcostError
from tlbcost.run.stdin import ProgramInput


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def read_all(stdin: ProgramInput, *, first: bool) -> bytes:
    with stdin.opened(first=first) as fd:
        assert fd is not None
        with os.fdopen(os.dup(fd), "rb") as file:
            return file.read()


def test_a_pipe_is_given_whole_to_every_run(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"data")
    os.close(pipe[1])
    stdin = ProgramInput(pipe[0])
    assert [read_all(stdin, first=first) for first in (True, False, False)] == [b"data"] * 3
    stdin.close()


def test_a_pipe_without_end_is_refused(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"x" * 2000)
    with pytest.raises(TlbcostError, match="longer than") as error:
        ProgramInput(pipe[0], limit_bytes=1000)
    assert error.value.exit_code == 125


def test_a_file_is_read_again_from_where_it_stood(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"0123456789")
    fd = os.open(path, os.O_RDONLY)
    os.lseek(fd, 4, os.SEEK_SET)
    stdin = ProgramInput(fd)
    with stdin.opened(first=True) as own:
        assert own is None
        os.read(fd, 100)
    assert read_all(stdin, first=False) == b"456789"
    assert read_all(stdin, first=False) == b"456789"
    os.close(fd)


def test_a_closed_input_stays_closed() -> None:
    fd = os.open(os.devnull, os.O_RDONLY)
    os.close(fd)
    with ProgramInput(fd).opened(first=False) as given:
        assert given is None


def test_a_terminal_gives_later_runs_nothing() -> None:
    controller, terminal = os.openpty()
    stdin = ProgramInput(terminal)
    with stdin.opened(first=True) as fd:
        assert fd is None
    assert read_all(stdin, first=False) == b""
    os.close(controller)
    os.close(terminal)
