# SPDX-License-Identifier: GPL-2.0-or-later
"""Keys to sort rows by. Apart, so that --help loads nothing else."""

from __future__ import annotations

from typing import Literal

SortKey = Literal["memory", "huge", "eligible", "ineligible", "reach", "faults", "age", "pid"]
