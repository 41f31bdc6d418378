# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a calibration read from its file as it was written?"""

from __future__ import annotations

from pathlib import Path

from builders.calibration import of_this_machine
from tlbcost.calibration.file import read_calibration, write_calibration


def test_written_and_read_it_is_the_same(tmp_path: Path) -> None:
    write_calibration(tmp_path / "c.tsv", of_this_machine())
    assert read_calibration(tmp_path / "c.tsv") == of_this_machine()


def test_a_quantitys_earlier_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "c.tsv"
    write_calibration(path, of_this_machine())
    text = path.read_text()
    path.write_text(text.replace("l3_half_life_ns", "l3_stay_ns"))
    assert path.read_text() != text
    assert read_calibration(path) == of_this_machine()
