# SPDX-License-Identifier: GPL-2.0-or-later
"""Can another user choose what is written to, by what he puts in a folder that all may write to?"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tlbcost.common import files, output
from tlbcost.common.errors import TlbcostError

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
