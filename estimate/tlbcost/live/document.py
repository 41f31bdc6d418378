# SPDX-License-Identifier: GPL-2.0-or-later
"""What `tlbcost top` shows of processes, cgroups and the host, as JSON and OpenMetrics."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Literal, TypeVar

from tlbcost.common.document import Part, amount, doc
from tlbcost.common.openmetrics import exposition, family, labels
from tlbcost.live.keys import SortKey
from tlbcost.live.processes import SeenProcess
from tlbcost.memory.areas import Reaches, reach_ratio
from tlbcost.system import huge_pages
from tlbcost.system.huge_pages import fallbacks
from tlbcost.system.machine import THP, Machine, read_text, selected, thp_mode

_FIELD = re.compile(r"^(\w+): +(\d+) kB$", re.MULTILINE)
_HIDES = re.compile(r"\bhidepid=(?:2|4|invisible|ptraceable)\b")
_KINDS = ("AnonHugePages", "ShmemHugePages", "FileHugePages")


class LivePool(Part, frozen=True, kw_only=True):
    """A pool of huge pages of one size."""

    page_size_bytes: Annotated[int, amount("size of its pages")]
    total_bytes: Annotated[int | None, amount("memory in it")]
    free_bytes: Annotated[int | None, amount("of this, what no process has touched")]


class Host(Part, frozen=True, kw_only=True):
    """The whole host."""

    memory_bytes: Annotated[int | None, amount("memory")]
    available_bytes: Annotated[int | None, amount("for programs, as the kernel estimates it")]
    thp_bytes: Annotated[
        int | None, amount("transparent huge pages of programs, shared memory and files")
    ]
    thp_mode: Annotated[str | None, doc("always, madvise or never; null: not in this kernel")]
    thp_defrag: Annotated[str | None, doc("their setting defrag")]
    fallback_rate: Annotated[
        float | None, amount("page faults a second that failed to get a transparent huge page")
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
        pools = []
        for size in self._sizes:
            pool = huge_pages.pool(size)
            pools.append(
                LivePool(
                    page_size_bytes=size,
                    total_bytes=None if pool.pages is None else pool.pages * size,
                    free_bytes=None if pool.free is None else pool.free * size,
                )
            )
        return Host(
            memory_bytes=found.get("MemTotal"),
            available_bytes=found.get("MemAvailable"),
            thp_bytes=sum(thp) if thp else None,
            thp_mode=thp_mode(),
            thp_defrag=selected(f"{THP}/defrag"),
            fallback_rate=rate,
            pools=tuple(pools),
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


By = Literal["process", "cgroup"]
_N = TypeVar("_N", int, float)
NO_CGROUP = "NA"


class Row(Part, frozen=True, kw_only=True):
    """One process, or the processes of one cgroup."""

    pid: Annotated[int | None, doc("the process; null: a cgroup")]
    name: Annotated[str, doc("what ps calls the process; path of the cgroup")]
    cgroup: Annotated[
        str | None, doc("path of its group of the memory controller, or of cgroups version 2")
    ]
    processes: Annotated[int, doc("how many these are", minimum=1)]
    memory_bytes: Annotated[
        int | None,
        amount(
            "in memory, on pages of any size; of a cgroup, a page that n processes map counts 1/n "
            "for each"
        ),
    ]
    huge_bytes: Annotated[int | None, amount("of these, on huge pages; null: may not be read")]
    eligible_bytes: Annotated[
        int | None,
        amount(
            "on base pages, where the kernel may put transparent huge pages; null: not read yet, "
            "may not be read, or not reported (before Linux 5.0)"
        ),
    ]
    ineligible_bytes: Annotated[
        int | None, amount("on base pages, where it may not, as things are")
    ]
    reach_ratio: Annotated[
        float | None, amount("how many times the TLB the memory would take; 1 and less fits")
    ]
    faults: Annotated[int | None, amount("page faults since the process started; null: a cgroup")]
    fault_rate: Annotated[float | None, doc("page faults a second, over the last readings")]
    age_s: Annotated[
        float | None, amount("how old memory_bytes and huge_bytes are; null: not read")
    ]
    eligible_age_s: Annotated[
        float | None, amount("how old eligible_bytes and ineligible_bytes are")
    ]


class TopDocument(Part, frozen=True, kw_only=True):
    """What huge pages do on a host at one moment. null: not obtained."""

    schema: Annotated[Literal["tlbcost-top-1"], doc("form of this document and its version")] = (
        "tlbcost-top-1"
    )
    tlbcost_version: Annotated[str, doc("version of tlbcost that wrote it")]
    date: Annotated[str, doc("UTC, ISO 8601", format="date-time")]
    machine: Annotated[Machine, doc("the machine")]
    reach: Annotated[Reaches, doc("of the last level of the TLB, on base and on huge pages")]
    host: Annotated[Host, doc("the whole host")]
    by: Annotated[By, doc("what the rows are")]
    unreadable: Annotated[int, amount("processes of which this user may not read everything")]
    hidden: Annotated[bool, doc("/proc hides processes of other users (hidepid)")]
    own_cpu_fraction: Annotated[
        float | None, amount("CPU time of tlbcost after its first reading, of one CPU")
    ]
    rows: Annotated[tuple[Row, ...], doc("the processes or cgroups, sorted")]


def rows_of(processes: Collection[SeenProcess], by: By, reaches: Reaches, now: float) -> list[Row]:
    rows = [_row(each, reaches, now) for each in processes]
    if by == "process":
        return rows
    groups: dict[str, tuple[list[Row], list[SeenProcess]]] = {}
    for row, process in zip(rows, processes, strict=True):
        group = groups.setdefault(row.cgroup or NO_CGROUP, ([], []))
        group[0].append(row)
        group[1].append(process)
    return [_sum_of(*members, name, reaches) for name, members in groups.items()]


def _row(process: SeenProcess, reaches: Reaches, now: float) -> Row:
    memory, huge, ratio, age = process.resident_bytes, None, None, None
    pages = process.pages
    if pages is not None:
        shared = sum(pages.shared_hugetlb.values())
        memory, huge = pages.memory_bytes + shared, pages.huge_bytes + shared
        ratio, age = _ratio(memory, huge, reaches), now - process.looked_at
    return Row(
        pid=process.pid,
        name=process.name,
        cgroup=process.cgroup,
        processes=1,
        memory_bytes=memory,
        huge_bytes=huge,
        eligible_bytes=process.eligible_bytes,
        ineligible_bytes=process.ineligible_bytes,
        reach_ratio=ratio,
        faults=process.faults,
        fault_rate=process.fault_rate,
        age_s=age,
        eligible_age_s=None if process.eligible_bytes is None else now - process.eligible_at,
    )


def _ratio(memory: int, huge: int, reaches: Reaches) -> float:
    return reach_ratio(memory, huge / memory if memory else 0.0, reaches)


def _sum_of(
    rows: Sequence[Row], processes: Sequence[SeenProcess], name: str, reaches: Reaches
) -> Row:
    """What one process lacks is unknown for the sum, but for rates, which a new process lacks."""
    memory = ratio = None
    huge = _of_all(sum, [row.huge_bytes for row in rows])
    if huge is not None:
        # What several map of a pool counts once.
        maps = [each.pages.shared_hugetlb for each in processes if each.pages is not None]
        files = {key: max(each.get(key, 0) for each in maps) for each in maps for key in each}
        twice = sum(sum(each.values()) for each in maps) - sum(files.values())
        huge -= twice
        memory = sum(row.memory_bytes or 0 for row in rows) - twice
        ratio = _ratio(memory, huge, reaches)
    rates = [row.fault_rate for row in rows if row.fault_rate is not None]
    return Row(
        pid=None,
        name=name,
        cgroup=rows[0].cgroup,
        processes=len(rows),
        memory_bytes=memory,
        huge_bytes=huge,
        eligible_bytes=_of_all(sum, [row.eligible_bytes for row in rows]),
        ineligible_bytes=_of_all(sum, [row.ineligible_bytes for row in rows]),
        reach_ratio=ratio,
        faults=None,
        fault_rate=sum(rates) if rates else None,
        age_s=_of_all(max, [row.age_s for row in rows]),
        eligible_age_s=_of_all(max, [row.eligible_age_s for row in rows]),
    )


def _of_all(function: Callable[[list[_N]], _N], parts: Sequence[_N | None]) -> _N | None:
    known = [part for part in parts if part is not None]
    return function(known) if len(known) == len(parts) else None


_VALUES = {
    "memory": "memory_bytes",
    "huge": "huge_bytes",
    "eligible": "eligible_bytes",
    "ineligible": "ineligible_bytes",
    "reach": "reach_ratio",
    "faults": "fault_rate",
    "age": "age_s",
}


def in_order(rows: Iterable[Row], key: SortKey) -> list[Row]:
    """Most first, what is not known last; by pid, the lowest first."""
    if key == "pid":
        return sorted(rows, key=lambda row: (row.pid or 0, row.name))
    attribute = _VALUES[key]

    def order(row: Row) -> tuple[bool, float, str]:
        value = getattr(row, attribute)
        return value is None, -(value or 0), row.name

    return sorted(rows, key=order)


# Name of a metric of processes or cgroups (it ends with its unit), unit, words, attribute of rows.
_ROWS = (
    ("memory_bytes", "bytes", "Memory on pages of any size.", "memory_bytes"),
    ("huge_bytes", "bytes", "Memory on huge pages.", "huge_bytes"),
    (
        "eligible_bytes",
        "bytes",
        "Memory on base pages that the kernel may put on transparent huge pages.",
        "eligible_bytes",
    ),
    (
        "ineligible_bytes",
        "bytes",
        "Memory on base pages that the kernel may not put on transparent huge pages.",
        "ineligible_bytes",
    ),
    ("tlb_reach_ratio", "ratio", "Times the TLB the memory would take.", "reach_ratio"),
    ("age_seconds", "seconds", "Age of memory and huge bytes.", "age_s"),
    ("eligible_age_seconds", "seconds", "Age of eligible and ineligible bytes.", "eligible_age_s"),
)
_FAULTS = ("page_faults", "", "Page faults since its start.", "faults")
# A sum over the members of a group falls when one ends: no counter.
_FAULT_RATE = ("page_fault_rate", "", "Page faults a second.", "fault_rate")


def openmetrics(document: TopDocument) -> str:
    host, lines = document.host, list[str]()
    single: list[tuple[str, str, str, float | None]] = [
        ("thp_bytes", "bytes", "Memory on transparent huge pages.", host.thp_bytes),
        ("available_bytes", "bytes", "Memory available to programs.", host.available_bytes),
        ("memory_bytes", "bytes", "Memory of the host.", host.memory_bytes),
        ("thp_fallback_rate", "", "Faults a second without a huge page.", host.fallback_rate),
        ("unreadable_processes", "processes", "Not read for lack of rights.", document.unreadable),
    ]
    for name, unit, words, value in single:
        lines += family(f"tlbcost_host_{name}", unit, words, [("", value)])
    lines += _pools(host.pools)
    of = [
        labels(cgroup=row.name) if row.pid is None else labels(pid=row.pid, comm=row.name)
        for row in document.rows
    ]
    for each in (*_ROWS, _FAULTS if document.by == "process" else _FAULT_RATE):
        name, unit, words, attribute = each
        values = [getattr(row, attribute) for row in document.rows]
        samples = list(zip(of, values, strict=True))
        metric = f"tlbcost_{document.by}_{name}"
        lines += family(metric, unit, words, samples, counter=each is _FAULTS)
    return exposition(lines)


def _pools(pools: Sequence[LivePool]) -> Iterable[str]:
    """By OpenTelemetry's names, which count pages."""
    limit: list[tuple[str, float | None]] = []
    usage: list[tuple[str, float | None]] = []
    for pool in pools:
        size, total, free = pool.page_size_bytes, pool.total_bytes, pool.free_bytes
        known = total is not None and free is not None
        used = (total or 0) - (free or 0)
        limit.append((labels(page_bytes=size), None if total is None else total // size))
        for state, n_bytes in (("free", free), ("used", used if known else None)):
            pages = None if n_bytes is None else n_bytes // size
            usage.append((labels(page_bytes=size, state=state), pages))
    name = "system_memory_linux_hugepages"
    yield from family(f"{name}_limit", "", "Huge pages in pools.", limit)
    yield from family(f"{name}_usage", "", "Huge pages in pools by their state.", usage)
