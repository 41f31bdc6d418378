# SPDX-License-Identifier: GPL-2.0-or-later
"""What is shown of processes or cgroups, and what does `tlbcost top --json` write?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from tlbcost.common.document import Part, doc
from tlbcost.live.host import Host
from tlbcost.live.keys import SortKey
from tlbcost.live.processes import Process
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


def rows_of(processes: Iterable[Process], by: By, reaches: Reaches, now: float) -> list[Row]:
    """A row for each process, or for each cgroup."""
    if by == "process":
        return [_row([each], each.name, reaches, now, pid=each.pid) for each in processes]
    groups: dict[str, list[Process]] = {}
    for each in processes:
        groups.setdefault(each.cgroup or NO_CGROUP, []).append(each)
    return [_row(members, name, reaches, now) for name, members in groups.items()]


def _row(
    members: Sequence[Process], name: str, reaches: Reaches, now: float, *, pid: int | None = None
) -> Row:
    pages = [each.pages for each in members if each.pages is not None]
    files: dict[bytes, int] = {}
    for each in pages:
        for key, size in each.shared_hugetlb.items():
            files[key] = max(files.get(key, 0), size)
    memory = huge = ratio = age = None
    if len(pages) == len(members):
        shared = sum(files.values())
        memory = sum(each.memory_bytes for each in pages) + shared
        huge = sum(each.huge_bytes for each in pages) + shared
        ratio = reach_ratio(memory, huge / memory if memory else 0.0, reaches)
        age = now - min(each.looked_at for each in members)
    elif pid is not None:
        memory = members[0].resident_bytes
    eligible = _sum([each.eligible_bytes for each in members])
    return Row(
        pid=pid,
        name=name,
        cgroup=members[0].cgroup,
        processes=len(members),
        memory_bytes=memory,
        huge_bytes=huge,
        eligible_bytes=eligible,
        ineligible_bytes=_sum([each.ineligible_bytes for each in members]),
        reach_ratio=ratio,
        faults=None if pid is None else members[0].faults,
        fault_rate=_sum_of_rates([each.fault_rate for each in members]),
        age_s=age,
        eligible_age_s=None
        if eligible is None
        else now - min(each.eligible_at for each in members),
    )


def _sum(parts: Sequence[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _sum_of_rates(parts: Sequence[float | None]) -> float | None:
    """Of those that are known: who came just now has no rate yet."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


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
