# SPDX-License-Identifier: GPL-2.0-or-later
"""What was calibrated on one machine: its costs, each with its interval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tlbcost.common.interval import Interval
from tlbcost.system.machine import Machine

Access = Literal["serial", "overlapped", "chains_2", "chains_4", "chains_8"]
Extent = Literal["quick", "full"]
Grade = Literal["good", "poor"]
# What to do about a poor one, wherever it is shown.
POOR = "poor calibration: repeat it when the machine is quiet"
# Independent chains that are followed at once.
CHAINS: tuple[Access, ...] = ("chains_2", "chains_4", "chains_8")


@dataclass(frozen=True, slots=True)
class Cost:
    """One calibrated quantity (doc/format.md, "calibration"); `interval` None: not obtained.

    `page_size_bytes` None: the quantity belongs to no page size.
    """

    quantity: str
    page_size_bytes: int | None = None
    access: Access | None = None
    pages: int | None = None
    interval: Interval | None = None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything that was calibrated on one machine.

    `cpuid` has the raw words of CPUID leaves by their key in the samples' header; empty where the
    CPU has no such instruction. `notes` are sentences about what is missing or limited.
    `grade_reasons`: why it is poor, as sentences; empty: it is good.
    """

    machine: Machine
    date: str
    version: str
    duration_s: float
    costs: tuple[Cost, ...]
    extent: Extent = "quick"
    cpuid: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    grade_reasons: tuple[str, ...] = ()

    @property
    def grade(self) -> Grade:
        """Whether estimates may rely on it."""
        return "poor" if self.grade_reasons else "good"


@dataclass(frozen=True, slots=True)
class Obtained:
    """A calibration, and where it came from (part of a sentence).

    `curve` is the text of the `curve` table behind it; None if it was not kept.
    """

    calibration: Calibration
    source: str
    curve: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about it: sentences about what is missing or limited."""
        return self.calibration.notes
