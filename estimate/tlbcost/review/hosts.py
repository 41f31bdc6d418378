# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the estimates for each type of host rest on: which machine, calibration and accuracy?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tlbcost.accuracy.record import TrackRecord, track_records
from tlbcost.answer.estimate_document import CalibrationPart, EstimateDocument, HostMachine
from tlbcost.calibration.cache import look_up, read_with_curve
from tlbcost.calibration.records import Calibration, Obtained
from tlbcost.review.document import MachineCalibration, ReviewDocument, ReviewMachine
from tlbcost.review.plan import MachineType, Plan
from tlbcost.review.task import TaskResult
from tlbcost.system.machine import Machine


def review_machines(plan: Plan, results: Sequence[TaskResult]) -> tuple[ReviewMachine, ...]:
    """Each type of host of the plan. Raises TlbcostError: a calibration cannot be read any more."""
    return tuple(
        _machine(name, kind, [r.estimate for r in results if r.machine == name and r.estimate])
        for name, kind in plan.machines.items()
    )


def calibrations(plan: Plan, review: ReviewDocument) -> dict[str, Obtained]:
    """The calibrations that estimates used, with their curves if these are kept, by type of host.

    What is cached may have been measured since: it counts if its date is the estimates'.
    """
    found = {}
    for machine in review.machines:
        file, used = plan.machines[machine.name].calibration, machine.calibration
        cached = read_with_curve(Path(file)) if file is not None else look_up()[0]
        if cached is not None and used is not None and cached.calibration.date == used.date:
            found[machine.name] = cached
    return found


def _machine(name: str, kind: MachineType, estimates: Sequence[EstimateDocument]) -> ReviewMachine:
    calibration, host = _calibration(kind, estimates)
    return ReviewMachine(
        name=name, hosts=kind.hosts, core=kind.core, host=host, calibration=calibration,
        accuracy=_accuracy(host, estimates),
    )  # fmt: skip


def _calibration(
    kind: MachineType, estimates: Sequence[EstimateDocument]
) -> tuple[MachineCalibration | None, Machine | None]:
    """The calibration of the plan, else the one that all estimates used; and its machine."""
    if kind.calibration is not None:
        obtained = read_with_curve(Path(kind.calibration))
        return _of_file(obtained.calibration, obtained.source), obtained.calibration.machine
    used = {each.calibration.date: each.calibration for each in estimates if each.calibration}
    hosts = [each.machine for each in estimates if each.machine is not None]
    same = hosts[0] if hosts and len({_key(host) for host in hosts}) == 1 else None
    host = None if same is None else _plain(same)
    return (_of_estimate(*used.values()) if len(used) == 1 else None), host


def _of_file(found: Calibration, source: str) -> MachineCalibration:
    return MachineCalibration(
        source=source, date=found.date, extent=found.extent, grade=found.grade,
        grade_reasons=found.grade_reasons,
    )  # fmt: skip


def _of_estimate(used: CalibrationPart) -> MachineCalibration:
    return MachineCalibration(
        source=used.source, date=used.date, extent=None, grade=used.grade,
        grade_reasons=used.grade_reasons,
    )  # fmt: skip


def _plain(host: HostMachine) -> Machine:
    """Without what only an estimate knows."""
    return Machine(**{name: getattr(host, name) for name in Machine.__dataclass_fields__})


def _key(host: HostMachine) -> tuple[object, ...]:
    return host.cpu_vendor, host.cpu_family, host.cpu_model, host.cpu_stepping


def _accuracy(
    host: Machine | None, estimates: Sequence[EstimateDocument]
) -> dict[str, TrackRecord]:
    """The record of this CPU by each way; without one, what the estimates quote."""
    if host is not None:
        return {str(way): record for way, record in track_records(host).items()}
    quoted = [each.tried for each in estimates if each.tried is not None]
    return {"estimate": quoted[0]} if quoted else {}
