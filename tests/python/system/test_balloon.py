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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, features: str, reports: bool
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    folder = tmp_path / "sys/bus/virtio/devices/virtio0"
    folder.mkdir(parents=True)
    (folder / "device").write_text(device)
    (folder / "features").write_text(features)
    assert reports_free_pages() is reports


def test_a_machine_without_virtio_reports_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    assert reports_free_pages() is False
