# SPDX-License-Identifier: GPL-2.0-or-later
"""Which event table belongs to a CPU, and which of its events have these names?"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Sequence

from tlbcost.common import paths
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.processors.events import Event, Pmu, read_pmu
from tlbcost.system.machine import Machine

_GENERIC = "perf"


@functools.cache
def load_pmu(key: str) -> Pmu:
    """The table data/events/<key>.tsv. Raises TlbcostError naming the file and the defect."""
    return read_pmu(paths.data("events", f"{key}.tsv"))


def all_pmus() -> list[Pmu]:
    """All tables, by key."""
    return [load_pmu(path.stem) for path in sorted(paths.data("events").glob("*.tsv"))]


def generic_pmu() -> Pmu:
    """The kernel's generic and software events, for CPUs without a table."""
    return load_pmu(_GENERIC)


def pmu_of(machine: Machine) -> Pmu | None:
    """The table of this machine's CPU, or None.

    On a hybrid machine: that of the cores that get work first (Intel's P-cores).
    """
    return next((pmu for pmu in all_pmus() if pmu.processors.include(machine)), None)


def named(text: str) -> Pmu:
    """The table of this key, libpfm4 name or alias, whatever the case.

    Raises TlbcostError (usage) with similar names.
    """
    known: dict[str, Pmu] = {}
    for pmu in all_pmus():
        for name in (pmu.key, pmu.pmu, *pmu.aliases):
            if name is not None:
                known.setdefault(name.lower(), pmu)
    wanted = text.lower().replace(" ", "-").replace("_", "-")
    for name, pmu in known.items():
        if wanted == name.replace("_", "-"):
            return pmu
    near = difflib.get_close_matches(text.lower(), known, n=4, cutoff=0.5)
    near += [name for name in known if wanted in name and name not in near][:4]
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise TlbcostError(
        f"no event table is called '{text}'",
        f"{hint}'tlbcost events --list' lists them",
        USAGE,
    )


def select(pmu: Pmu, names: Sequence[str]) -> tuple[Event, ...]:
    """The events of these names, each once, in this order; the kernel's software events too.

    `walk_active_cycles` means every access of it, without those of one page size. Raises
    TlbcostError (usage) with the valid names.
    """
    software = tuple(event for event in generic_pmu().events if event.type == "software")
    known = pmu.events + tuple(e for e in software if e not in pmu.events)
    chosen: dict[str, Event] = {}
    for name in names:
        found = [
            event
            for event in known
            if name == event.name or (name == event.role and event.page_size_bytes is None)
        ]
        if not found:
            raise TlbcostError(
                f"no event of {pmu.name} is called '{name}'",
                "there are " + ", ".join(dict.fromkeys(event.name for event in known)),
                USAGE,
            )
        chosen |= {event.name: event for event in found}
    return tuple(chosen.values())
