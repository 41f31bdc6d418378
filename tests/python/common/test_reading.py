# SPDX-License-Identifier: GPL-2.0-or-later
"""Does no file keep its reader for ever, or take all memory?"""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from tlbcost.common import reading
from tlbcost.common.errors import TlbcostError
from tlbcost.common.reading import read_descriptor, read_file, read_text


def test_a_file_and_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 100)
    assert read_file(file, 100) == b"x" * 100
    with pytest.raises(TlbcostError, match="100 B, and 99 B is the most") as error:
        read_file(file, 99, "another one")
    assert error.value.hint == "another one"
    file.write_bytes(b"")
    assert read_file(file) == b""


def test_a_sparse_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    with file.open("wb") as sparse:
        sparse.truncate(5 << 30)
    with pytest.raises(TlbcostError, match=f"cannot read {file}: it has 5 GiB, and 256 MiB is"):
        read_file(file)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dev/zero", "it is a device"),
        ("/dev/null", "it is a device"),
        ("/", "it is a directory"),
        ("/no/such/file", "No such file or directory"),
    ],
)
def test_what_is_no_file_is_refused(path: str, why: str) -> None:
    with pytest.raises(TlbcostError, match=f"^cannot read {path}: {why}$"):
        read_file(Path(path))


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        with pytest.raises(TlbcostError, match=r"cannot read .*: No such device"):
            read_file(tmp_path / "s")
        with pytest.raises(TlbcostError, match="cannot read it: it is a socket"):
            read_descriptor(made.fileno(), "it")


def test_a_fifo_that_nobody_writes_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    with pytest.raises(TlbcostError, match="it is a pipe, and no process writes to it"):
        read_file(tmp_path / "p")


def test_a_pipe_is_read_to_its_end_or_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    thread = threading.Thread(target=lambda: (os.write(writer, b"ab" * 1000), os.close(writer)))
    thread.start()
    # As a shell's <(command) names it.
    assert read_file(Path(f"/dev/fd/{reader}")) == b"ab" * 1000
    thread.join()
    os.close(reader)

    reader, writer = os.pipe()
    os.write(writer, b"y" * 5000)
    with pytest.raises(TlbcostError, match="it does not end within 4 KiB"):
        read_descriptor(reader, "it", 4096)
    monkeypatch.setattr(reading, "_PATIENCE_S", 0.0)
    with pytest.raises(TlbcostError, match="nothing came from the pipe for 0 s"):
        read_descriptor(reader, "it")
    os.close(reader)
    os.close(writer)


def test_text_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xff\xfe")
    with pytest.raises(TlbcostError, match="not UTF-8 text"):
        read_text(tmp_path / "f")
