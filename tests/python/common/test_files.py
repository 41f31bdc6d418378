# SPDX-License-Identifier: GPL-2.0-or-later
"""Can another user choose what is written to, or keep a file's reader? Who called sudo?"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tlbcost.common import files, output, reading, sudo
from tlbcost.common.errors import TlbcostError
from tlbcost.common.reading import read_descriptor, read_file, read_text

THEIRS = 65534


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder as /tmp is, and /tmp's own parents."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def theirs(path: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("needs root to make another user's file")
    os.chown(path, THEIRS, THEIRS, follow_symlinks=False)
    return path


def write(path: Path) -> None:
    with files.place_of(path) as place, files.new_file(place) as file:
        file.write(b"ours")


def test_a_link_put_there_in_between_is_replaced(shared: Path, tmp_path: Path) -> None:
    """The race that a look at the name beforehand loses."""
    victim = tmp_path / "victim"
    victim.write_text("root's")
    report = shared / "report"
    with files.place_of(report) as place, files.new_file(place) as file:
        report.symlink_to(victim)
        file.write(b"ours")
    assert victim.read_text() == "root's"
    assert not report.is_symlink()
    assert report.read_text() == "ours"


def test_a_folder_exchanged_for_a_link_in_between_is_not_left(shared: Path, tmp_path: Path) -> None:
    (shared / "folder").mkdir()
    with files.place_of(shared / "folder" / "report") as place:
        (shared / "folder").rename(shared / "moved")
        (shared / "folder").symlink_to(tmp_path)
        with files.new_file(place) as file:
            file.write(b"ours")
    assert not list(tmp_path.iterdir())
    assert (shared / "moved" / "report").read_text() == "ours"


@pytest.mark.parametrize("what", ["link", "link to a folder", "pipe", "link in a home"])
def test_what_another_user_put_there_is_not_used(shared: Path, tmp_path: Path, what: str) -> None:
    report = shared / "report"
    if what == "pipe":
        os.mkfifo(report)
    else:
        report.symlink_to(tmp_path if what == "link to a folder" else tmp_path / "victim")
    theirs(report)
    if what == "link in a home":
        # Closed to all but its owner: root does not rely on him.
        theirs(shared).chmod(0o755)
    asked = report / "file" if what == "link to a folder" else report
    for act in (write, output.check_writable):
        with pytest.raises((OSError, TlbcostError), match="it is another user's "):
            act(asked)
    assert not list(tmp_path.iterdir())


def test_links_of_root_or_in_a_closed_folder_are_followed(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("below/../file")
    (tmp_path / "below").mkdir()
    # /dev, root's, has it that others' links are harmless.
    write(theirs(tmp_path / "link") if os.geteuid() == 0 else tmp_path / "link")
    assert (tmp_path / "file").read_text() == "ours"
    (shared / "own").symlink_to(tmp_path / "file")
    write(shared / "own")
    assert (shared / "own").is_symlink()


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_an_open_file_or_pipe_is_written_in_place(tmp_path: Path, name: str) -> None:
    reader, writer = os.pipe()
    write(Path(name.format(writer)))
    assert os.read(reader, 9) == b"ours"
    os.close(reader)
    os.close(writer)
    with (tmp_path / "file").open("w") as file:
        write(Path(name.format(file.fileno())))
        assert (tmp_path / "file").stat().st_ino == os.fstat(file.fileno()).st_ino
    assert (tmp_path / "file").read_text() == "ours"


def test_links_in_a_circle_and_links_that_are_locked(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels"):
        write(tmp_path / "one")
    (tmp_path / "lock").symlink_to("elsewhere")
    with pytest.raises(OSError, match="Too many levels"):
        files.lock_file(tmp_path / "lock")
    (tmp_path / "lock").unlink()
    os.close(files.lock_file(tmp_path / "lock"))
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "elsewhere").exists()


def test_sudo_names_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "100")
    found = sudo.calling_user()
    assert found is not None
    assert (found.uid, found.gid) == (1000, 100)
    monkeypatch.setenv("SUDO_UID", "0")
    assert sudo.calling_user() is None
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert sudo.calling_user() is None


def test_a_file_and_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * 100)
    assert read_file(file, 100) == b"x" * 100
    with pytest.raises(TlbcostError, match="100 bytes, and 99 is the most") as error:
        read_file(file, 99, "another one")
    assert error.value.hint == "another one"
    file.write_bytes(b"")
    assert read_file(file) == b""


def test_a_sparse_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    with file.open("wb") as sparse:
        sparse.truncate(5 << 30)
    with pytest.raises(
        TlbcostError, match=f"cannot read {file}: it has 5,368,709,120 bytes, and 268,435,456 is"
    ):
        read_file(file)


@pytest.mark.parametrize(
    ("path", "why"),
    [("/dev/zero", "it is a device"), ("/dev/null", "it is a device"), ("/", "it is a directory"),
     ("/no/such/file", "No such file or directory")],
)  # fmt: skip
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
    with pytest.raises(TlbcostError, match="it does not end within 4,096 bytes"):
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
