# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a file written whole or not at all?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tlbcost.common.output import write_file

TEXT = "first\nsecond\n"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_file(tmp_path / "a", TEXT)
    assert (tmp_path / "a").read_text() == TEXT
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path / "folder", TEXT)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]
