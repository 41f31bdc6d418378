# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be done about the memory that pays for translation, on this system, and at what price?

Only remedies that work here are given. Nothing is changed: each is text to type or to write.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tlbcost.attribution.payers import Payer
from tlbcost.common.interval import Interval
from tlbcost.common.paths import source_tree
from tlbcost.memory import smaps
from tlbcost.memory.eligibility import Standing, stand
from tlbcost.memory.kinds import Backing, MemoryKind
from tlbcost.remedies.price import Pages, Price, price
from tlbcost.remedies.program_facts import Facts, facts_of
from tlbcost.run.records import Run
from tlbcost.system import hints, hugetlb
from tlbcost.system.glibc import tunable
from tlbcost.system.huge_pages import HugeSettings

Form = Literal["command", "setting", "code", "build", "server"]

TUNABLES = "GLIBC_TUNABLES"
THP = "/sys/kernel/mm/transparent_hugepage"
# What is worth a remedy: that may be this much of the run time, or else of the walks.
_LEAST_GAIN_FRACTION = 0.01
_LEAST_MISSES_FRACTION = 0.05
_COVERED = 0.9
MALLOC: tuple[MemoryKind, ...] = ("heap", "anonymous")


@dataclass(frozen=True, slots=True)
class Situation:
    """The program and the system that remedies are for.

    `environment`: what the program is started with. `faults`: ns of the first touch of a base and
    of a huge page. `hugectl`: whether it is installed. `glibc`: this system's; None: another.
    """

    argv: tuple[str, ...]
    settings: HugeSettings
    glibc: tuple[int, int] | None
    hugectl: bool
    runs: tuple[Run, ...] = ()
    faults: tuple[Interval | None, Interval | None] = (None, None)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def huge_page_bytes(self) -> int:
        """Of transparent huge pages, else of the default pool."""
        return self.settings.huge_page_bytes or 2 << 20

    @property
    def command(self) -> str:
        """The program's command line."""
        return shlex.join(self.argv)

    def can_pool(self, pages: int) -> bool:
        """Whether so many pages of the pool could be reserved now."""
        spare = hugetlb.spare_bytes()
        has = self.huge_page_bytes in hugetlb.sizes()
        return has and spare is not None and spare >= pages * self.huge_page_bytes


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing to do.

    `code`: its name, the same everywhere. `words`: what it does. `steps`: lines to type, or with
    `form` code to write, in their order; those with # explain. `undo`: how a changed system is put
    back. `caution`: what its makers, or the system, say against it. `source`: documentation.
    """

    code: str
    form: Form
    words: str
    steps: tuple[str, ...]
    pages: Pages
    price: Price
    undo: tuple[str, ...] = ()
    caution: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about payers that the same remedies serve; the simplest remedy first.

    `standing`: of the one that pays most; None: it was not looked at. `cautions`: what makers of
    the program advise. `none`: why there is no remedy, where there is none.
    """

    payers: tuple[Payer, ...]
    facts: Facts
    standing: Standing | None
    remedies: tuple[Remedy, ...]
    cautions: tuple[tuple[str, str], ...] = ()
    none: str | None = None


def pays(payer: Payer) -> bool:
    """Whether huge pages for this memory are worth a remedy, and it is not on them already."""
    backed = payer.backed
    if payer.kind in ("hugetlbfs", "stack", "unknown") or payer.size_bytes is None:
        return False
    if backed is not None and _is_covered(backed):
        return False
    if payer.gain_fraction is not None:
        return payer.gain_fraction.high >= _LEAST_GAIN_FRACTION
    share = payer.time_fraction if payer.time_fraction is not None else payer.misses_fraction
    return share is not None and share >= _LEAST_MISSES_FRACTION


def _is_covered(backed: Backing) -> bool:
    if "ht" in backed.flags:
        return True
    return 0 < backed.resident_bytes * _COVERED <= backed.huge_bytes


def advise(payers: Sequence[Payer], situation: Situation) -> tuple[Advice, ...]:
    """What to do about each payer that pays; those that pay most first."""
    groups: dict[tuple[str, str], list[Payer]] = {}
    for payer in sorted(filter(pays, payers), key=_weight, reverse=True):
        groups.setdefault((payer.program, _group(payer)), []).append(payer)
    return tuple(_advice(tuple(group), situation) for group in groups.values())


def _weight(payer: Payer) -> float:
    if payer.gain_fraction is not None:
        return payer.gain_fraction.value
    return payer.time_fraction or payer.misses_fraction or 0.0


def _group(payer: Payer) -> str:
    """Memory that malloc gives out is served at once, except that of threads' arenas."""
    if payer.kind in MALLOC and payer.name != smaps.ARENA:
        return "malloc"
    return f"{payer.kind} {payer.name} {payer.code}"


def _advice(payers: tuple[Payer, ...], situation: Situation) -> Advice:
    from tlbcost.remedies import malloc as advice_malloc
    from tlbcost.remedies import segments as advice_segments
    from tlbcost.remedies import shared as advice_shared
    from tlbcost.remedies import switches

    first = payers[0]
    facts = facts_of(first.program, situation.huge_page_bytes)
    standing = None
    if first.backed is not None:
        standing = stand(first.kind, first.name, first.backed, situation.settings)
    found = list(switches.remedies_for(payers, facts, situation))
    if first.kind in MALLOC or first.kind == "jit":
        found += advice_malloc.remedies_for(payers, facts, standing, situation)
    elif first.kind in ("tmpfs", "memfd", "sysv", "shared"):
        found += advice_shared.remedies_for(first, facts, standing, situation)
    else:
        found += advice_segments.remedies_for(first, facts, standing, situation)
    none = None
    if not found:
        why = standing.words if standing is not None else "no way is known"
        none = f"nothing puts it on huge pages here: {why}"
    return Advice(payers, facts, standing, tuple(found), switches.cautions_for(payers, facts), none)


def priced(
    payers: Sequence[Payer],
    pages: Pages,
    situation: Situation,
    pool_pages: int | None = None,
) -> Price:
    """What it costs to put these payers on huge pages."""
    pool = None if pool_pages is None else (pool_pages, situation.huge_page_bytes)
    shared = all(payer.kind in ("tmpfs", "memfd", "sysv", "shared") for payer in payers)
    return price(payers, pages, situation.settings, situation.faults, pool, shared=shared)


def with_environment(situation: Situation, variables: Mapping[str, str], argv: str = "") -> str:
    """The program's command line with variables before it, as a shell takes it."""
    parts = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    return " ".join([*parts, argv or situation.command])


def tunables(situation: Situation, name: str, value: str) -> str:
    """GLIBC_TUNABLES with one tunable set, and those that were set before."""
    present = situation.environment.get(TUNABLES, "")
    kept = [part for part in present.split(":") if part and tunable(part, name) is None]
    return ":".join([*kept, f"{name}={value}"])


def own_command() -> str:
    """How tlbcost itself is called; under sudo the PATH is often another one."""
    tree = source_tree()
    return shlex.quote(str(tree / "build" / "tlbcost")) if tree is not None else "tlbcost"


def with_pool(situation: Situation, pages: int, command: str) -> str:
    """A command that reserves pages while the program runs, and gives them back."""
    size = hugetlb.size_name(situation.huge_page_bytes)
    return hints.as_root(f"{own_command()} pool reserve --page-size {size} {pages} -- {command}")


def mode_setting(mode: str, file: str = "enabled") -> str | None:
    """Write a mode of transparent huge pages; None: that cannot be written here."""
    return hints.write_setting(mode, f"{THP}/{file}")
