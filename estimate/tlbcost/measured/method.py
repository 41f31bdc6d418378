# SPDX-License-Identifier: GPL-2.0-or-later
"""One way to huge pages: its needs, and the system made ready for it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tlbcost.common import units
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.system import hints, huge_pages, machine
from tlbcost.system.environment import joined
from tlbcost.system.machine import TUNABLES, read_line, selected

if TYPE_CHECKING:
    from tlbcost.memory.peak import MemoryScope
    from tlbcost.run.outcome import Run
    from tlbcost.settings.change import Settings

# The name of no change at all, for a program that has huge pages by itself.
AS_IT_RUNS = "as it runs"
# What asks for huge pages in the environment: no program on base pages may have it.
_ASKING = ("HUGETLB_MORECORE", "HUGETLB_ELFMAP", "HUGETLB_SHM")


@dataclass(frozen=True, slots=True)
class Method:
    """One way to give a program huge pages.

    `words` say what it does, `reach` which memory it should get. `page_bytes`: the size of the
    pages. `prefix` goes before the program. `pool_bytes`: the size of the hugetlb pages that must
    be free for it; `mount`: with a hugetlbfs. `settings`: what files of the kernel must hold.
    `notes`: what is to be known of the result.
    """

    name: str
    words: str
    reach: MemoryScope
    page_bytes: int | None
    environment: Mapping[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()
    pool_bytes: int | None = None
    mount: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def transparent(self) -> bool:
        """Whether it needs transparent huge pages; others are tried without them."""
        return self.pool_bytes is None

    @property
    def needs_root(self) -> bool:
        """Whether settings of this system have to change, apart from a pool."""
        return any(setting(path) != value for path, value in self.settings)

    @property
    def changes_settings(self) -> bool:
        """Whether prepare() changes the system, where it may."""
        return self.needs_root or self.pool_bytes is not None

    def check(self) -> None:
        """Raise TlbcostError (4) if this user cannot prepare it; pools are checked after a run."""
        if not hints.is_root():
            self._change(None)

    def prepare(self, settings: Settings | None, run: Run) -> None:
        """Make the system ready, given a run on base pages. Raises TlbcostError (4)."""
        self._change(settings)
        if self.pool_bytes is None:
            return
        pages = huge_pages.pool_pages(run.max_rss_bytes, self.pool_bytes)
        if settings is not None:
            settings.reserve(self.pool_bytes, pages)
            if self.mount:
                settings.mount_hugetlbfs(self.pool_bytes)
            return
        free = huge_pages.free_pages(self.pool_bytes)
        if free < pages:
            command = (
                f"tlbcost pool reserve --page-size {huge_pages.size_name(self.pool_bytes)} {pages}"
            )
            raise TlbcostError(
                f"{self.name} needs {pages} free huge pages of {units.size(self.pool_bytes)}, "
                f"and there are {free}",
                hints.as_root(command),
                CANNOT_MEASURE,
            )

    def _change(self, settings: Settings | None) -> None:
        for path, value in self.settings:
            if setting(path) == value:
                continue
            if settings is None:
                raise TlbcostError(
                    f"{self.name} needs {value} in {path}, which root alone can write",
                    hints.again_as_root(),
                    CANNOT_MEASURE,
                )
            settings.write(path, value)

    def environment_of(self, base: Mapping[str, str]) -> dict[str, str]:
        return {**base, **joined(base, self.environment)}


def setting(path: str) -> str | None:
    """The value of a setting; of several in a line, the one in brackets. None: not there."""
    return selected(path) or read_line(path)


def base_environment() -> tuple[dict[str, str], tuple[str, ...]]:
    """Our environment without what asks for huge pages; and sentences about what was left out."""
    environment = dict(os.environ)
    notes = []
    tunables = environment.get(TUNABLES, "")
    if machine.tunable(tunables, machine.HUGETLB_TUNABLE) not in (None, "0"):
        kept = [
            part
            for part in tunables.split(":")
            if part.partition("=")[0] != machine.HUGETLB_TUNABLE
        ]
        environment[TUNABLES] = ":".join(kept)
        notes.append(f"{TUNABLES} asks for huge pages here; that is left out")
    present = [name for name in _ASKING if environment.pop(name, None) is not None]
    if present:
        notes.append(f"{', '.join(present)} of libhugetlbfs is left out")
    preload = environment.get("LD_PRELOAD", "")
    kept = [part for part in re.split(r"[ :]+", preload) if "libhugetlbfs" not in part]
    if "libhugetlbfs" in preload:
        environment["LD_PRELOAD"] = ":".join(kept)
        notes.append("libhugetlbfs in LD_PRELOAD is left out")
    return environment, tuple(notes)


def drop_huge_page_requests(announce: Callable[[str], None]) -> tuple[str, ...]:
    """Remove requests for huge pages from our environment; returns the sentences announced."""
    environment, notes = base_environment()
    for note in notes:
        announce(note)
    os.environ.clear()
    os.environ.update(environment)
    return notes
