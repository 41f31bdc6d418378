# SPDX-License-Identifier: GPL-2.0-or-later
"""Which processors is a file of data/ about, and is this machine one of them?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tlbcost.common.table import Table
from tlbcost.system.machine import Machine


@dataclass(frozen=True, slots=True)
class Processors:
    """Processors as /proc/cpuinfo describes them; doc/format.md, "machine", has the notation.

    `family`, `models` and `steppings` are None if they do not matter; `vendor` None: the file is
    not about a particular processor.
    """

    vendor: str | None
    family: int | None
    models: frozenset[int] | None
    steppings: frozenset[int] | None = None

    def include(self, machine: Machine) -> bool:
        """Whether this machine's processor is one of them."""
        vendor, model, stepping = machine.cpu_vendor, machine.cpu_model, machine.cpu_stepping
        # POWER kernels report no vendor; the version is in "revision: 2.2 (pvr 004e 1202)".
        power = re.search(r"\(pvr ([0-9a-f]{4}) ", stepping or "")
        if power:
            vendor, model = "IBM", f"0x{power[1]}"
        return (
            vendor is not None
            and self.vendor is not None
            and self.vendor.lower() == vendor.lower()
            and self.family in (None, _number(machine.cpu_family))
            and (self.models is None or _number(model) in self.models)
            and (self.steppings is None or _number(stepping) in (None, *self.steppings))
        )


def processors(table: Table) -> Processors:
    """The header of a table. Raises ValueError or TlbcostError if it is wrong."""
    family = table.known("cpu_family")
    return Processors(
        vendor=table.known("cpu_vendor"),
        family=None if family is None else int(family, 0),
        models=_numbers(table.key("cpu_models")),
        steppings=_numbers(table.header.get("cpu_steppings", "NA")),
    )


def _number(text: str | None) -> int | None:
    """A decimal or 0x number as the kernel prints it, else None."""
    try:
        return None if text is None else int(text, 0)
    except ValueError:
        return None


def _numbers(text: str) -> frozenset[int] | None:
    """Numbers and ranges such as `16-31`, separated by commas; None for NA."""
    return None if text == "NA" else frozenset(_ranges(text))


def _ranges(text: str) -> Iterator[int]:
    for part in text.split(","):
        low, _, high = part.strip().partition("-")
        yield from range(int(low, 0), int(high or low, 0) + 1)
