# SPDX-License-Identifier: GPL-2.0-or-later
"""Is an emulated CPU distinguished from a real one, by what the kernel says of it alone?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import MACHINE
from tlbcost.system.balloon import reports_free_pages
from tlbcost.system.emulation import emulation

ARM = replace(MACHINE, cpu_vendor="0x41", cpu_model="0xd0c", cpu_name="Arm Neoverse N1")


def pmu(root: Path, *events: str) -> None:
    folder = root / "sys/bus/event_source/devices/armv8_pmuv3_0/events"
    folder.mkdir(parents=True)
    for event in events:
        (folder / event).write_text("event=0x0000\n")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    return tmp_path


def test_counters_without_caches_are_an_emulators(root: Path) -> None:
    pmu(root, "cpu_cycles", "stall_backend")
    assert emulation(ARM) == "its counters (armv8_pmuv3_0) count cycles but no cache misses"


@pytest.mark.parametrize("events", [(), ("cpu_cycles", "l1d_cache_refill", "inst_retired")])
def test_nothing_is_concluded_from_counters_of_real_cores_or_none(
    root: Path, events: tuple[str, ...]
) -> None:
    pmu(root, *events)
    assert emulation(ARM) is None


@pytest.mark.usefixtures("root")
def test_the_names_of_qemus_own_cpus() -> None:
    assert "0x00" in str(emulation(replace(ARM, cpu_vendor="0x00")))
    qemu = replace(MACHINE, cpu_name="QEMU TCG CPU version 2.5+")
    assert emulation(qemu) == "its name is QEMU TCG CPU version 2.5+"
    # A guest of KVM may have this one.
    assert emulation(replace(MACHINE, cpu_name="QEMU Virtual CPU version 2.5+")) is None


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
