# SPDX-License-Identifier: GPL-2.0-or-later
"""Does this virtual machine hand its free memory back to the host?"""

from __future__ import annotations

from tlbcost.system.machine import read_line, sys_path

_DEVICES = "/sys/bus/virtio/devices"
# linux/virtio_ids.h and linux/virtio_balloon.h.
_BALLOON = "0x0005"
_REPORTING_BIT = 5


def reports_free_pages() -> bool:
    """Whether a balloon with free page reporting is here; no, where that cannot be read."""
    for folder in sys_path(_DEVICES).glob("*"):
        # The features are written from bit 0 on.
        features = read_line(f"{_DEVICES}/{folder.name}/features") or ""
        is_balloon = read_line(f"{_DEVICES}/{folder.name}/device") == _BALLOON
        if is_balloon and features[_REPORTING_BIT : _REPORTING_BIT + 1] == "1":
            return True
    return False
