# SPDX-License-Identifier: GPL-2.0-or-later
"""What is a remedy, which program and system is it for, and of which lines is it made?"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from tlbcost.attribution.shares import RegionShare
from tlbcost.common.document import doc
from tlbcost.common.interval import Interval
from tlbcost.common.paths import source_tree
from tlbcost.memory.kinds import MemoryKind
from tlbcost.remedies.price import Pages, Price, price
from tlbcost.run.outcome import Run
from tlbcost.system import hints, hugetlb
from tlbcost.system.glibc import tunable
from tlbcost.system.huge_pages import HugeSettings

Form = Literal["command", "setting", "code", "build", "server"]

TUNABLES = "GLIBC_TUNABLES"
THP = "/sys/kernel/mm/transparent_hugepage"
MALLOC: tuple[MemoryKind, ...] = ("heap", "anonymous")

# Documentation that several remedies come from.
THP_GUIDE = "https://docs.kernel.org/admin-guide/mm/transhuge.html"
MADVISE = "https://man7.org/linux/man-pages/man2/madvise.2.html"
HUGECTL = "https://man7.org/linux/man-pages/man8/hugectl.8.html"
TMPFS = "https://docs.kernel.org/filesystems/tmpfs.html"


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

    code: Annotated[str, doc("its name, the same everywhere")]
    form: Annotated[Form, doc("what its steps are")]
    words: Annotated[str, doc("what it does")]
    steps: Annotated[
        tuple[str, ...],
        doc("lines to type, or of form code to write; those with # explain"),
    ]
    pages: Annotated[Pages, doc("which huge pages")]
    price: Annotated[Price, doc("what it costs")]
    undo: Annotated[tuple[str, ...], doc("how a changed system is put back")] = ()
    caution: Annotated[str | None, doc("what its makers, or the system, say against it")] = None
    source: Annotated[str | None, doc("address of the documentation")] = None


def priced(
    regions: Sequence[RegionShare],
    pages: Pages,
    situation: Situation,
    pool_pages: int | None = None,
) -> Price:
    """What it costs to put these regions on huge pages."""
    pool = None if pool_pages is None else (pool_pages, situation.huge_page_bytes)
    shared = all(region.kind in ("tmpfs", "memfd", "sysv", "shared") for region in regions)
    return price(regions, pages, situation.settings, situation.faults, pool, shared=shared)


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


def unmounting(folder: str) -> tuple[str, ...]:
    """What undoes it."""
    return hints.as_root(f"umount {folder}"), hints.as_root(f"rmdir {folder}")


def mode_remedy(
    code: str,
    words: str,
    modes: tuple[str | None, str],
    regions: Sequence[RegionShare],
    situation: Situation,
    file: str = "enabled",
    caution: str | None = None,
) -> Remedy | None:
    """A mode of transparent huge pages for the whole system; None: it cannot be written here.

    `modes`: what is set now, and what to set.
    """
    before, after = modes
    set_it = mode_setting(after, file)
    back = mode_setting(before, file) if before is not None else None
    if set_it is None:
        return None
    return Remedy(
        code,
        "setting",
        words,
        (set_it, situation.command),
        "transparent",
        priced(regions, "transparent", situation),
        undo=(back,) if back else (),
        caution=caution,
        source=THP_GUIDE,
    )
