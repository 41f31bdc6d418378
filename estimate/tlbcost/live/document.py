# SPDX-License-Identifier: GPL-2.0-or-later
"""What is shown of processes or cgroups, and what does `tlbcost top --json` write?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Literal

from tlbcost.common.document import Part, doc
from tlbcost.live.host import Host
from tlbcost.live.keys import SortKey
from tlbcost.live.processes import SeenProcess
from tlbcost.memory.areas import Reaches, reach_ratio
from tlbcost.system.machine import Machine

By = Literal["process", "cgroup"]
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
        doc(
            "in memory, on pages of any size; of a cgroup, a page that n processes map counts 1/n "
            "for each",
            minimum=0,
        ),
    ]
    huge_bytes: Annotated[
        int | None, doc("of these, on huge pages; null: may not be read", minimum=0)
    ]
    eligible_bytes: Annotated[
        int | None,
        doc(
            "on base pages, where the kernel may put transparent huge pages; null: not read yet, "
            "may not be read, or not reported (before Linux 5.0)",
            minimum=0,
        ),
    ]
    ineligible_bytes: Annotated[
        int | None, doc("on base pages, where it may not, as things are", minimum=0)
    ]
    reach_ratio: Annotated[
        float | None,
        doc("how many times the TLB the memory would take; 1 and less fits", minimum=0),
    ]
    faults: Annotated[
        int | None, doc("page faults since the process started; null: a cgroup", minimum=0)
    ]
    fault_rate: Annotated[float | None, doc("page faults a second, over the last readings")]
    age_s: Annotated[
        float | None, doc("how old memory_bytes and huge_bytes are; null: not read", minimum=0)
    ]
    eligible_age_s: Annotated[
        float | None, doc("how old eligible_bytes and ineligible_bytes are", minimum=0)
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
    unreadable: Annotated[
        int, doc("processes of which this user may not read everything", minimum=0)
    ]
    hidden: Annotated[bool, doc("/proc hides processes of other users (hidepid)")]
    own_cpu_fraction: Annotated[
        float | None, doc("CPU time of tlbcost after its first reading, of one CPU", minimum=0)
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
    huge = _sum([row.huge_bytes for row in rows])
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
        eligible_bytes=_sum([row.eligible_bytes for row in rows]),
        ineligible_bytes=_sum([row.ineligible_bytes for row in rows]),
        reach_ratio=ratio,
        faults=None,
        fault_rate=sum(rates) if rates else None,
        age_s=_oldest([row.age_s for row in rows]),
        eligible_age_s=_oldest([row.eligible_age_s for row in rows]),
    )


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _oldest(ages: Sequence[float | None]) -> float | None:
    known = [age for age in ages if age is not None]
    return max(known) if len(known) == len(ages) else None


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
