# SPDX-License-Identifier: GPL-2.0-or-later
"""A plan: the policy, the types of hosts, and the services with their evidence.

A plan is TOML. Its tables and keys are the records of this file; shares, sizes and times carry a
unit ("3 %", "64 GiB", "90 s"), so that none is read as another.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from tlbcost.common.document import Part, doc
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.reading import read_text

End = Literal["low", "value", "high"]
_Count = Annotated[int, msgspec.Meta(ge=1)]
_Price = Annotated[float, msgspec.Meta(ge=0)]

_HINT = "tlbcost review --init writes an example; tlbcost-review(1) has all keys"
_SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_TIMES = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z%]+)", re.ASCII)
_EVIDENCE = ("command", "pid", "pidfile", "counts", "estimate")
# Keys that only a command, or only a process that runs, can have.
_OF_COMMANDS = ("folder", "prepare", "stdin", "runs", "environment")


class Gate(Part, frozen=True, kw_only=True):
    """What makes --gate fail; null: not checked."""

    most_translation: Annotated[str | None, doc('upper bound of translation, as "20 %"')] = None
    most_gain_left: Annotated[
        str | None, doc("gain of a service that is to be adopted and is not yet, at its lower end")
    ] = None
    most_growth: Annotated[str | None, doc("memory that a change would add")] = None
    failures: Annotated[bool, doc("a service without a result breaks the gate")] = True


class Policy(Part, frozen=True, kw_only=True):
    """What is worth a change."""

    least_gain: Annotated[str, doc('share of the CPU time that must be saved, as "2 %"')] = "2 %"
    decide_on: Annotated[End, doc("which end of the interval must be that much")] = "low"
    most_growth: Annotated[str, doc("memory that a service may grow by")] = "25 %"
    most_stall: Annotated[
        str | None,
        doc('time that a first touch of a huge page may take, of 999 in 1000, as "5 ms"'),
    ] = None
    most_pool: Annotated[str, doc("of a host's memory, what pools may take")] = "50 %"
    without: Annotated[
        tuple[str, ...], doc('remedies that are not allowed, by code, such as "thp-always"')
    ] = ()
    gate: Annotated[Gate, doc("what makes --gate fail")] = Gate()


class MachineType(Part, frozen=True, kw_only=True):
    """One type of host; without calibration and core it is this machine."""

    calibration: Annotated[str | None, doc("file of a calibration made there")] = None
    core: Annotated[str | None, doc("published core, as tlbcost machines lists them")] = None
    hosts: Annotated[_Count | None, doc("how many there are")] = None
    memory: Annotated[str | None, doc('of one host, as "256 GiB"')] = None
    price: Annotated[_Price | None, doc("of one host for an hour")] = None
    price_per_gib_year: Annotated[_Price | None, doc("of a GiB of memory for a year")] = None
    currency: Annotated[str | None, doc("of the prices")] = None


class Service(Part, frozen=True, kw_only=True):
    """One service, and where its evidence comes from: exactly one of the last five keys."""

    name: Annotated[str, doc("what it is called, once in a plan")]
    kind: Annotated[
        Literal["service", "job"],
        doc("a service gets its huge pages once; a job, at each start"),
    ] = "service"
    machines: Annotated[
        tuple[str, ...], doc("where it runs; all of the plan if there are none")
    ] = ()
    instances: Annotated[_Count, doc("of them on each host")] = 1
    cpu_share: Annotated[str | None, doc("of a host's CPU time, what all instances use")] = None
    seconds: Annotated[str | None, doc('with pid: how long to follow it, as "30 s"')] = None
    time_limit: Annotated[str, doc("of one estimate")] = "30 min"
    folder: Annotated[str | None, doc("where the command runs")] = None
    prepare: Annotated[str | None, doc("shell command before each run")] = None
    stdin: Annotated[str | None, doc("file that the command reads")] = None
    runs: Annotated[_Count | None, doc("native runs")] = None
    environment: Annotated[dict[str, str], doc("variables of the command")] = msgspec.field(
        default_factory=dict
    )
    redact: Annotated[bool, doc("of its command line, write the program's name only")] = False
    cpu: Annotated[str | None, doc("with counts: the CPU that was counted on")] = None
    command: Annotated[tuple[str, ...], doc("a program to run, and its arguments")] = ()
    pid: Annotated[_Count | None, doc("a process that runs here")] = None
    pidfile: Annotated[str | None, doc("a file with its number")] = None
    counts: Annotated[str | None, doc("counts taken elsewhere: files, by a glob")] = None
    estimate: Annotated[str | None, doc("what tlbcost estimate --json wrote")] = None


class Plan(Part, frozen=True, kw_only=True):
    """A capacity review: which services, on which hosts, by which policy."""

    policy: Annotated[Policy, doc("what is worth a change")] = Policy()
    machines: Annotated[dict[str, MachineType], doc("types of hosts, by name")] = msgspec.field(
        default_factory=dict
    )
    services: Annotated[list[Service], doc("what to review", minItems=1)]

    def pairs(self) -> Iterator[tuple[Service, str]]:
        for service in self.services:
            for machine in service.machines or tuple(self.machines):
                yield service, machine


def share(text: str, key: str) -> float:
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[2] != "%":
        raise _wrong(key, f'a share such as "3 %" was expected, not "{text}"')
    return float(found[1]) / 100


def size(text: str, key: str) -> int:
    """Bytes of a size such as "64 GiB"."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[2] not in _SIZES:
        raise _wrong(key, f'a size such as "64 GiB" was expected, not "{text}"')
    return int(float(found[1]) * _SIZES[found[2]])


def time_s(text: str, key: str) -> float:
    found = _NUMBER.fullmatch(text.strip())
    if found is None or found[2] not in _TIMES or not float(found[1]):
        raise _wrong(key, f'a time such as "90 s" or "5 min" was expected, not "{text}"')
    return float(found[1]) * _TIMES[found[2]]


def read_plan(path: Path, *, services: bool = True) -> Plan:
    """A plan, its relative paths from its folder. Raises TlbcostError with exit code 2."""
    try:
        table = tomllib.loads(read_text(path, hint=_HINT))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TlbcostError(f"{path}: not TOML: {error}", _HINT, USAGE) from error
    except TlbcostError as error:
        raise TlbcostError(str(error), _HINT, USAGE) from error
    if not services:
        table.setdefault("services", [])
    try:
        plan = msgspec.convert(table, Plan)
    except msgspec.ValidationError as error:
        raise _located(str(error), table) from error
    if not plan.machines:
        plan = msgspec.structs.replace(plan, machines={"here": MachineType()})
    _check_units(plan)
    if services or plan.services:
        _check_services(plan)
    return _with_paths(plan, path.resolve().parent)


def _located(message: str, table: dict[str, Any]) -> TlbcostError:
    """msgspec's message "what - at `$.services[0].name`" with the key first."""
    what, _, where = message.partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    if key.startswith("machines[...]"):
        # It does not say which.
        name = next(name for name, kind in table["machines"].items() if not _is_machine(kind))
        key = key.replace("machines[...]", f"machines.{name}", 1)
    unknown = re.search(r"unknown field `(.*)`", what)
    missing = re.search(r"missing required field `(.*)`", what)
    if unknown:
        return _wrong(f"{key}.{unknown[1]}".lstrip("."), "there is no such key")
    if missing:
        return _wrong(f"{key}.{missing[1]}".lstrip("."), "it is missing")
    return _wrong(key or "the plan", what[:1].lower() + what[1:])


def _is_machine(kind: object) -> bool:
    try:
        msgspec.convert(kind, MachineType)
    except msgspec.ValidationError:
        return False
    return True


def _wrong(key: str, why: str) -> TlbcostError:
    return TlbcostError(f"plan: {key}: {why}", _HINT, USAGE)


def _check_units(plan: Plan) -> None:
    policy = plan.policy
    for name in ("least_gain", "most_growth", "most_pool"):
        share(getattr(policy, name), f"policy.{name}")
    if policy.most_stall is not None:
        time_s(policy.most_stall, "policy.most_stall")
    for name in ("most_translation", "most_gain_left", "most_growth"):
        if getattr(policy.gate, name) is not None:
            share(getattr(policy.gate, name), f"policy.gate.{name}")
    for name, machine in plan.machines.items():
        if machine.memory is not None:
            size(machine.memory, f"machines.{name}.memory")
        if machine.calibration is not None and machine.core is not None:
            raise _wrong(f"machines.{name}", "calibration and core exclude each other")
        priced = machine.price is not None or machine.price_per_gib_year is not None
        if priced != (machine.currency is not None):
            raise _wrong(f"machines.{name}", "price and currency belong together")
    for i, service in enumerate(plan.services):
        if service.cpu_share is not None:
            share(service.cpu_share, f"services[{i}].cpu_share")
        time_s(service.time_limit, f"services[{i}].time_limit")
        if service.seconds is not None:
            time_s(service.seconds, f"services[{i}].seconds")


def _check_services(plan: Plan) -> None:
    if not plan.services:
        raise _wrong("services", "there are none")
    names: set[str] = set()
    for i, service in enumerate(plan.services):
        key = f"services[{i}]"
        if not service.name.strip():
            raise _wrong(f"{key}.name", "it is empty")
        if service.name in names:
            raise _wrong(f"{key}.name", f'another service is called "{service.name}"')
        names.add(service.name)
        for machine in service.machines:
            if machine not in plan.machines:
                raise _wrong(f"{key}.machines", f"there is no [machines.{machine}] in the plan")
        given = [name for name in _EVIDENCE if getattr(service, name)]
        if len(given) != 1:
            found = f"not {' and '.join(given)}" if given else "and there is none"
            raise _wrong(key, f"one of {', '.join(_EVIDENCE)} was expected, {found}")
        _check_keys(service, given[0], key)


def _check_keys(service: Service, evidence: str, key: str) -> None:
    """Keys that this evidence cannot use."""
    for name in _OF_COMMANDS:
        if getattr(service, name) and evidence != "command":
            raise _wrong(f"{key}.{name}", f"it belongs to command, not to {evidence}")
    if service.seconds is not None and evidence not in ("pid", "pidfile"):
        raise _wrong(f"{key}.seconds", f"it belongs to pid, not to {evidence}")
    if service.cpu is not None and evidence != "counts":
        raise _wrong(f"{key}.cpu", f"it belongs to counts, not to {evidence}")


def _with_paths(plan: Plan, folder: Path) -> Plan:
    def below(name: str | None) -> str | None:
        return None if name is None else str(folder / name)

    machines = {
        name: msgspec.structs.replace(machine, calibration=below(machine.calibration))
        for name, machine in plan.machines.items()
    }
    services = [
        msgspec.structs.replace(
            service,
            folder=below(service.folder) or str(folder),
            stdin=below(service.stdin),
            pidfile=below(service.pidfile),
            counts=below(service.counts),
            estimate=below(service.estimate),
        )
        for service in plan.services
    ]
    return msgspec.structs.replace(plan, machines=machines, services=services)
