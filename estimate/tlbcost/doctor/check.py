# SPDX-License-Identifier: GPL-2.0-or-later
"""What was found when one thing was looked at?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["ok", "limited", "missing"]
Value = str | int | None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `command` fixes a gap; None: there is no gap, or no command.

    `blocks`: `tlbcost estimate` cannot work until it is fixed. `values` are for programs; units
    are in the keys, None is "not obtained".
    """

    name: str
    state: State
    finding: str
    command: str | None = None
    blocks: bool = False
    values: Mapping[str, Value] = field(default_factory=dict)
