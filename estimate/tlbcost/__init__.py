# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost: what address translation costs a program, and what huge pages would save."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tlbcost.api import Estimated, compare, estimate, review_plan, trials

__all__ = ["Estimated", "compare", "estimate", "review_plan", "trials"]


def __getattr__(name: str) -> object:
    # Commands start faster without all of it.
    if name not in __all__:
        raise AttributeError(f"module 'tlbcost' has no attribute '{name}'")
    from tlbcost import api

    return getattr(api, name)
