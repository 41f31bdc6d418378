# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a file written whole or not at all?"""

from __future__ import annotations

import argparse
import os
import pwd
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest
from builders.tree import fails
from tlbcost.common import output
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.output import open_text, write_file

TEXT = "first\nsecond\n"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_file(tmp_path / "a", TEXT)
    assert (tmp_path / "a").read_text() == TEXT
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path / "folder", TEXT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


@pytest.mark.parametrize("name", ["missing/report", "."])
def test_unwritable_files_are_refused_before(tmp_path: Path, name: str) -> None:
    with fails("cannot write", 125):
        output.check_writable(tmp_path / name, TOOL_FAILED)


def test_a_device_is_written_to_and_not_replaced() -> None:
    device = Path("/dev/full")
    if not device.is_char_device() or not os.access(device, os.W_OK):
        pytest.skip("no /dev/full here")
    with pytest.raises(TlbcostError, match="No space left"):
        output.write(device, "text\n")
    assert device.is_char_device()


def test_a_device_takes_what_two_options_write(tmp_path: Path) -> None:
    device = Path(os.devnull)
    output.check_files({"--output": device, "--json": device, "--plot": tmp_path / "plot"})
    with pytest.raises(TlbcostError, match="the same file: standard output"):
        output.check_files({"--output": output.STDOUT, "--json": output.STDOUT})


def test_json_on_standard_output_stands_in_for_text(capfd: pytest.CaptureFixture[str]) -> None:
    def text(found: str, file: TextIO) -> None:
        print(f"text of {found}", file=file)

    def given(output_: Path | None, json: Path | None) -> None:
        files = argparse.Namespace(output=output_, json=json)
        output.give_report(files, "it", text, lambda found: f"json of {found}\n")

    given(None, output.STDOUT)
    assert capfd.readouterr() == ("json of it\n", "")
    given(output.STDOUT, None)
    assert capfd.readouterr() == ("text of it\n", "")
    given(None, None)
    assert capfd.readouterr() == ("", "text of it\n")


@pytest.fixture
def open_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where every user may write; pytest's own folders are closed to others."""
    if os.geteuid() != 0:
        pytest.skip("needs root to act for another user")
    try:
        user = pwd.getpwuid(65534)
    except KeyError:
        pytest.skip("needs user 65534")
    monkeypatch.setenv("SUDO_UID", str(user.pw_uid))
    monkeypatch.setenv("SUDO_GID", str(user.pw_gid))
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)


def test_under_sudo_a_file_belongs_to_the_user_who_called_it(open_folder: Path) -> None:
    write_file(open_folder / "report", TEXT)
    assert (open_folder / "report").stat().st_uid == 65534
    with open_text(open_folder / "intervals") as file:
        file.write(TEXT)
    assert (open_folder / "intervals").stat().st_uid == 65534
    assert os.geteuid() == 0


def test_under_sudo_what_only_root_can_write_is_roots(open_folder: Path, tmp_path: Path) -> None:
    assert open_folder.exists()
    tmp_path.chmod(0o700)
    write_file(tmp_path / "report", TEXT)
    assert (tmp_path / "report").stat().st_uid == 0


@pytest.mark.parametrize("sudo", [True, False])
@pytest.mark.parametrize("write", [lambda path: write_file(path, TEXT), open_text])
def test_root_follows_no_link_of_another_user(
    open_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sudo: bool,
    write: Callable[[Path], object],
) -> None:
    if not sudo:
        monkeypatch.delenv("SUDO_UID")
    tmp_path.chmod(0o700)
    victim = tmp_path / "shadow"
    victim.write_text("root's")
    link = open_folder / "report.txt"
    link.symlink_to(victim)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    with pytest.raises(OSError, match="it is another user's symbolic link"):
        write(link)
    assert victim.read_text() == "root's"
    assert list(open_folder.iterdir()) == [link]
