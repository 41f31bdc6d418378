# SPDX-License-Identifier: GPL-2.0-or-later
"""Which events are counted: those asked for, or what this CPU's formulas need?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.counters.count import default_events
from tlbcost.counters.tool import CYCLES, SOFTWARE, Wanted
from tlbcost.processors.event_tables import generic_pmu, named, pmu_of, select
from tlbcost.processors.events import Pmu
from tlbcost.system.machine import current_machine

# Names of data/events are in lower case, with dots; libpfm4's strings have colons or capitals.
_ROLE = re.compile(r"[a-z0-9_]+(\.[a-z]+(\.[0-9]+[KMG])?)?")
# perf's spelling of a code.
_CODE = re.compile(r"r([0-9a-f]{1,16})")


def choose_pmu(name: str | None) -> tuple[Pmu, tuple[str, ...]]:
    """The event table of this CPU, or the one of this name, and what to say about it.

    Raises TlbcostError (usage) if there is none of this name.
    """
    own = pmu_of(current_machine())
    if name is not None:
        pmu = named(name)
        if own is None or pmu.key in (own.key, generic_pmu().key):
            return pmu, ()
        return pmu, (
            f"this CPU is not one of {pmu.name}, whose codes were counted: they may mean something "
            "else here",
        )
    if own is not None:
        return own, ()
    return generic_pmu(), (
        "this CPU has no event table: the kernel's generic events were counted, whose meaning "
        "depends on the CPU",
    )


def choose_events(pmu: Pmu, names: Sequence[str]) -> tuple[Wanted, ...]:
    """The events of these names, in this order; of none: what the formulas need.

    A name is one of data/events, a libpfm4 string, or a code as `r1001008`. Cycles come first
    where there are several events, since they show whether several runs were alike. Raises
    TlbcostError (usage) for a name that cannot be any of these.
    """
    if not names:
        return tuple(Wanted.of(event) for event in default_events(pmu))
    wanted: dict[str, Wanted] = {}
    for name in names:
        found = _named(pmu, name.strip(), len(wanted))
        for each in found:
            wanted.setdefault(each.role_name or each.event, each)
    chosen = list(wanted.values())
    if sum(not each.software for each in chosen) > 1 and not any(
        each.role_name == CYCLES for each in chosen
    ):
        chosen[:0] = [Wanted.of(event) for event in pmu.events if event.name == CYCLES]
    return tuple(chosen)


def _named(pmu: Pmu, name: str, number: int) -> list[Wanted]:
    code = _CODE.fullmatch(name)
    if code:
        return [Wanted(f"event_{number}", None, name, f"code:raw:0x{code[1]}")]
    if _ROLE.fullmatch(name):
        return [Wanted.of(event) for event in select(pmu, [name])]
    if not re.fullmatch(r"[!-~]+", name) or "|" in name:
        raise TlbcostError(
            f"not an event: '{name}'",
            "'tlbcost events' lists the names; libpfm4's strings work too",
            USAGE,
        )
    software = [event.string for event in generic_pmu().events if event.type == SOFTWARE]
    return [Wanted(f"event_{number}", None, name, name, name in software)]
