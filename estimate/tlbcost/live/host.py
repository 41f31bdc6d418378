# SPDX-License-Identifier: GPL-2.0-or-later
"""What does the whole host have on huge pages now?"""

from __future__ import annotations

import re
import time
from typing import Annotated

from tlbcost.common.document import Part, doc
from tlbcost.system import huge_pages
from tlbcost.system.huge_pages import fallbacks
from tlbcost.system.machine import THP, read_text, selected, thp_mode

_FIELD = re.compile(r"^(\w+): +(\d+) kB$", re.MULTILINE)
_HIDES = re.compile(r"\bhidepid=(?:2|4|invisible|ptraceable)\b")
_KINDS = ("AnonHugePages", "ShmemHugePages", "FileHugePages")


class LivePool(Part, frozen=True, kw_only=True):
    """A pool of huge pages of one size."""

    page_size_bytes: Annotated[int, doc("size of its pages", minimum=0)]
    total_bytes: Annotated[int | None, doc("memory in it", minimum=0)]
    free_bytes: Annotated[int | None, doc("of this, what no process has touched", minimum=0)]


class Host(Part, frozen=True, kw_only=True):
    """The whole host."""

    memory_bytes: Annotated[int | None, doc("memory", minimum=0)]
    available_bytes: Annotated[
        int | None, doc("for programs, as the kernel estimates it", minimum=0)
    ]
    thp_bytes: Annotated[
        int | None, doc("transparent huge pages of programs, shared memory and files", minimum=0)
    ]
    thp_mode: Annotated[str | None, doc("always, madvise or never; null: not in this kernel")]
    thp_defrag: Annotated[str | None, doc("their setting defrag")]
    fallback_rate: Annotated[
        float | None,
        doc("page faults a second that failed to get a transparent huge page", minimum=0),
    ]
    pools: Annotated[tuple[LivePool, ...], doc("of huge pages, by their size")]


class HostReader:
    """Reads them again and again, for the rates."""

    def __init__(self) -> None:
        self._before: tuple[float, int] | None = None
        self._sizes = huge_pages.sizes()

    def read(self) -> Host:
        text = read_text("/proc/meminfo") or ""
        found = {name: int(kib) << 10 for name, kib in _FIELD.findall(text)}
        thp = [found[kind] for kind in _KINDS if kind in found]
        now, count = time.monotonic(), fallbacks()
        before, self._before = self._before, None if count is None else (now, count)
        rate = None
        if before is not None and count is not None:
            rate = max(count - before[1], 0) / (now - before[0])
        return Host(
            memory_bytes=found.get("MemTotal"),
            available_bytes=found.get("MemAvailable"),
            thp_bytes=sum(thp) if thp else None,
            thp_mode=thp_mode(),
            thp_defrag=selected(f"{THP}/defrag"),
            fallback_rate=rate,
            pools=tuple(_pool(size) for size in self._sizes),
        )


def _pool(size: int) -> LivePool:
    pool = huge_pages.pool(size)
    return LivePool(
        page_size_bytes=size,
        total_bytes=None if pool.pages is None else pool.pages * size,
        free_bytes=None if pool.free is None else pool.free * size,
    )


def hides_processes() -> bool:
    """Whether /proc leaves out processes of other users (hidepid, proc(5))."""
    kinds = []
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        own, _, kind = line.partition(" - ")
        if own.split()[4:5] == ["/proc"] and kind.startswith("proc "):
            kinds.append(kind)
    # The last one covers the others; root, and members of a group, see everything.
    return bool(kinds) and _HIDES.search(kinds[-1]) is not None and not read_text("/proc/1/stat")
