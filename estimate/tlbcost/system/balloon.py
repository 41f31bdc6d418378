# SPDX-License-Identifier: GPL-2.0-or-later
"""Does this virtual machine hand its free memory back to the host?"""

from __future__ import annotations

from pathlib import Path

DEVICES = Path("/sys/bus/virtio/devices")
# linux/virtio_ids.h and linux/virtio_balloon.h.
_BALLOON = 0x0005
_REPORTING_BIT = 5


def reports_free_pages(devices: Path = DEVICES) -> bool:
    """Whether a balloon with free page reporting is here; no, where that cannot be read."""
    return any(map(_reports, devices.glob("*")))


def _reports(device: Path) -> bool:
    try:
        number = int((device / "device").read_text(encoding="ascii"), 16)
        # The features are written from bit 0 on.
        features = (device / "features").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return False
    return number == _BALLOON and features[_REPORTING_BIT : _REPORTING_BIT + 1] == "1"
