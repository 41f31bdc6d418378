# SPDX-License-Identifier: GPL-2.0-or-later
"""Which CPU is meant by the name in a row, what does the plan call it, and what do walks cost?"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from tlbcost.answer.gains import Costs, costs_of, footprint_of
from tlbcost.answer.record import Evidence
from tlbcost.calibration.file import read_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.processors.events import Pmu, all_pmus, named, pmu_of
from tlbcost.review.plan import MachineType, Plan
from tlbcost.system.machine import current_machine

# As perf report --header prints it: vendor, family, model, stepping.
_CPUID = re.compile(r"(\w+),(\d+),(\d+),(\d+)", re.ASCII)


def cpu_named(text: str) -> Pmu:
    """Events by a name of `tlbcost events --list`, or by perf's cpuid. Raises TlbcostError."""
    found = _CPUID.fullmatch(text.strip())
    if found is None:
        return named(text.strip())
    vendor, family, model, stepping = found.groups()
    machine = replace(
        current_machine(), cpu_vendor=vendor, cpu_family=family, cpu_model=model,
        cpu_stepping=stepping,
    )  # fmt: skip
    pmu = pmu_of(machine)
    if pmu is None:
        raise TlbcostError(f"no event table is of the CPU {text}", "'tlbcost events --list'", USAGE)
    return pmu


@dataclass(frozen=True, slots=True)
class Machines:
    """What the plan says of CPUs, by the key of their events; empty without a plan."""

    names: dict[str, str] = field(default_factory=dict)
    calibrated: dict[str, Obtained] = field(default_factory=dict)
    _costs: dict[str, Costs | None] = field(default_factory=dict)

    def costs(self, pmu: Pmu, given: Evidence) -> Costs | None:
        """What walks cost there; None: there is no calibration of such a CPU."""
        if pmu.key not in self._costs:
            self._costs[pmu.key] = costs_of(given, footprint_of(given, ()), ())
        return self._costs[pmu.key]


def machines_of(plan: Plan | None) -> Machines:
    """Machines by CPU. Raises TlbcostError (usage) for bad calibrations, and two of one CPU."""
    found = Machines()
    for name, kind in {} if plan is None else plan.machines.items():
        key, obtained = _cpu_of(name, kind)
        if key is None:
            continue
        if key in found.names:
            other = found.names[key]
            raise TlbcostError(
                f"plan: machines.{name}: its CPU is that of machines.{other}, and counts name "
                "the CPU alone",
                "leave one of them out of a plan for --counts",
                USAGE,
            )
        found.names[key] = name
        if obtained is not None:
            found.calibrated[key] = obtained
    return found


def _cpu_of(name: str, kind: MachineType) -> tuple[str | None, Obtained | None]:
    if kind.core is not None:
        # Cores and events are called alike.
        return (kind.core if kind.core in {pmu.key for pmu in all_pmus()} else None), None
    if kind.calibration is None:
        return None, None
    try:
        calibration = read_calibration(Path(kind.calibration))
    except TlbcostError as error:
        hint = "tlbcost calibrate --output FILE, on such a host, writes one"
        raise TlbcostError(f"plan: machines.{name}.calibration: {error}", hint, USAGE) from error
    pmu = pmu_of(calibration.machine)
    return (None if pmu is None else pmu.key), Obtained(calibration, f"from {kind.calibration}")
