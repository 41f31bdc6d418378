# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a file written whole or not at all?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tlbcost.common import output
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.output import write_file

TEXT = "first\nsecond\n"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_file(tmp_path / "a", TEXT)
    assert (tmp_path / "a").read_text() == TEXT
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path / "folder", TEXT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


def test_written_files_are_whole_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "report"
    output.check_writable(target)
    output.write(target, "text\n")
    assert target.read_text() == "text\n"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("name", ["missing/report", "."])
def test_unwritable_files_are_refused_before(tmp_path: Path, name: str) -> None:
    with pytest.raises(TlbcostError, match="cannot write") as error:
        output.check_writable(tmp_path / name, TOOL_FAILED)
    assert error.value.exit_code == 125


def test_a_device_is_written_to_and_not_replaced() -> None:
    device = Path("/dev/full")
    if not device.is_char_device() or not os.access(device, os.W_OK):
        pytest.skip("no /dev/full here")
    with pytest.raises(TlbcostError, match="No space left"):
        output.write(device, "text\n")
    assert device.is_char_device()
