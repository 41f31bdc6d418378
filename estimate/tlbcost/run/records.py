# SPDX-License-Identifier: GPL-2.0-or-later
"""What one native run of a program cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """One native execution of the program and the children it waited for."""

    wall_ns: int
    user_ns: int
    system_ns: int
    minor_faults: int
    major_faults: int
    max_rss_bytes: int
