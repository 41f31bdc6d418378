# SPDX-License-Identifier: GPL-2.0-or-later
"""Which program and system are remedies for, and how does one type a command for them?"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from tlbcost.common.interval import Interval
from tlbcost.common.paths import source_tree
from tlbcost.run.outcome import Run
from tlbcost.system import hints, hugetlb
from tlbcost.system.glibc import tunable
from tlbcost.system.huge_pages import HugeSettings

TUNABLES = "GLIBC_TUNABLES"


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

    def pages_of(self, n_bytes: int) -> int:
        """Huge pages that hold so many bytes."""
        return -(-n_bytes // self.huge_page_bytes)


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
