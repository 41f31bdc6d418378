# SPDX-License-Identifier: GPL-2.0-or-later
"""Does every run read the same standard input?"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tlbcost.common.errors import TlbcostError
from tlbcost.run.launch import Launcher
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


def test_a_pipe_is_given_whole_to_runs_at_the_same_time(pipe: tuple[int, int]) -> None:
    data = os.urandom(3_000_000)

    def write() -> None:
        with os.fdopen(pipe[1], "wb") as file:
            file.write(data)

    stdin = ProgramInput(pipe[0])
    with ThreadPoolExecutor(4) as pool:
        pool.submit(write)
        found = list(pool.map(lambda first: read_all(stdin, first=first), (True, False, False)))
    assert [read == data for read in found] == [True] * 3
    stdin.close()


@pytest.fixture
def endless() -> Iterator[int]:
    """A pipe that `yes` writes to."""
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as source:
        assert source.stdout is not None
        yield source.stdout.fileno()
        source.kill()


def test_of_a_pipe_without_end_each_run_reads_what_it_asks_for(
    endless: int, tmp_path: Path
) -> None:
    with contextlib.closing(ProgramInput(endless, limit_bytes=1 << 20)) as stdin:
        launcher = Launcher(tmp_path, stdin)
        # Later runs read on where those before them stopped.
        for lines in (2, 60_000, 100_000):
            command = f"head -n {lines} | md5sum >{tmp_path}/sum{lines}"
            assert launcher.execute(["sh", "-c", command], discard=False).exit_code == 0
            expected = hashlib.md5(b"y\n" * lines).hexdigest()
            assert (tmp_path / f"sum{lines}").read_text(encoding="ascii").startswith(expected)


def test_a_pipe_that_is_read_without_end_is_refused_and_the_program_ended(
    endless: int, tmp_path: Path
) -> None:
    with contextlib.closing(ProgramInput(endless, limit_bytes=100_000)) as stdin:
        launcher = Launcher(tmp_path, stdin)
        command = f"cat >{tmp_path}/read; touch {tmp_path}/ended"
        with pytest.raises(TlbcostError, match="longer than") as error:
            launcher.execute(["sh", "-c", command], discard=False)
    assert error.value.exit_code == 125
    assert "<FILE" in (error.value.hint or "")
    assert (tmp_path / "read").stat().st_size <= 2 * 100_000
    # It never saw an end that is none.
    assert not (tmp_path / "ended").exists()


def test_a_run_need_not_wait_for_the_end_of_its_input(
    pipe: tuple[int, int], tmp_path: Path
) -> None:
    with contextlib.closing(ProgramInput(pipe[0])) as stdin:
        launcher = Launcher(tmp_path, stdin)
        for _ in range(2):
            assert launcher.execute(["true"], discard=False).exit_code == 0
        os.write(pipe[1], b"line\n")
        command = ["sh", "-c", f"head -n 1 >{tmp_path}/read"]
        assert launcher.execute(command, discard=False).exit_code == 0
    assert (tmp_path / "read").read_text(encoding="ascii") == "line\n"


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
