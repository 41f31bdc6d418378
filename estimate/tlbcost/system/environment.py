# SPDX-License-Identifier: GPL-2.0-or-later
"""An environment variable for a program that may already have a value for it."""

from __future__ import annotations

from collections.abc import Mapping

from tlbcost.system import machine

# Variables that hold several options: their separator. In the first kind the last one wins; in
# LD_PRELOAD the first.
_LISTS = {machine.TUNABLES: ":", "JAVA_TOOL_OPTIONS": " "}
_JEMALLOC = "MALLOC_CONF"


def joined(present: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """The variables, each with the kept part of its present value."""
    made: dict[str, str] = {}
    for name, value in variables.items():
        before = present.get(name, "")
        if name == "LD_PRELOAD":
            order, separator = (value, before), " "
        else:
            # jemalloc's variable has the prefix of its functions.
            separator = "," if name.endswith(_JEMALLOC) else _LISTS.get(name, "")
            order = (before if separator else "", value)
        made[name] = separator.join(part for part in order if part)
    return made
