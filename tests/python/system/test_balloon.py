# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of tlbcost.system.balloon."""

from __future__ import annotations

from pathlib import Path

import pytest
from tlbcost.system.balloon import reports_free_pages


@pytest.mark.parametrize(
    ("device", "features", "reports"),
    [
        ("0x0005\n", "0110010110\n", True),
        ("0x0005\n", "0110000110\n", False),
        ("0x0002\n", "0110010110\n", False),
        ("0x0005\n", "01\n", False),
        ("garbage\n", "0110010110\n", False),
    ],
)
def test_free_page_reporting_is_a_feature_of_the_balloon(
    tmp_path: Path, device: str, features: str, reports: bool
) -> None:
    folder = tmp_path / "virtio0"
    folder.mkdir()
    (folder / "device").write_text(device)
    (folder / "features").write_text(features)
    assert reports_free_pages(tmp_path) is reports


def test_a_machine_without_virtio_reports_none(tmp_path: Path) -> None:
    assert reports_free_pages(tmp_path / "none") is False
