# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a count of 0 a count, or did nothing count?

An Arm PMU takes any raw event, and one that the core lacks reads 0. The kernel lists the
architecture's events that it found in the core (PMCEID registers) under the event source: a 0 of
one in that list is a count. Linux names only some of the events, so that a 0 of another one
cannot be told from one that is not there.

Firmware that hands out counters may give an event none if another one counts it already: QEMU's
does, for RISC-V. Of two names for one event, the one that reads 0 beside the other is no count.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tlbcost.counters.tool import Reading
from tlbcost.processors.events import Pmu
from tlbcost.system.machine import read_line, sys_path

_RAW = 4
# Types below this are the kernel's; others are numbers of event sources.
_FIRST_SOURCE = 6
_SOURCES = "/sys/bus/event_source/devices"


def mark_silent(found: Mapping[str, Reading], pmu: Pmu) -> dict[str, Reading]:
    """The readings, with the state `silent` and no count where 0 may mean "not there"."""
    counted = {_event(reading) for reading in found.values() if reading.count}
    architecture = platform.machine() if pmu.architecture == "any" else pmu.architecture
    arm = architecture == "aarch64"
    return {
        name: replace(reading, state="silent", count=None)
        if reading.count == 0 and (_event(reading) in counted or (arm and _may_be_missing(reading)))
        else reading
        for name, reading in found.items()
    }


def _event(reading: Reading) -> tuple[int | None, ...]:
    return reading.type, reading.config, reading.config1


def _may_be_missing(reading: Reading) -> bool:
    if reading.type is None or (reading.type != _RAW and reading.type < _FIRST_SOURCE):
        return False
    return reading.config not in set(_listed(reading.type))


def _listed(type_: int) -> Iterator[int]:
    """The codes that the event source of this type lists; for raw events, those of all cores."""
    for source in sys_path(_SOURCES).glob("arm*"):
        if type_ == _RAW or read_line(f"{_SOURCES}/{source.name}/type") == str(type_):
            for event in source.glob("events/*"):
                line = read_line(f"{_SOURCES}/{source.name}/events/{event.name}") or ""
                code = re.fullmatch(r"event=(0x[0-9a-f]+)", line)
                if code:
                    yield int(code[1], 16)
