# SPDX-License-Identifier: GPL-2.0-or-later
"""Plans, and results of their services, made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from builders.answer import altered, estimated
from builders.report import advised
from tlbcost.answer.document import estimate_document
from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.units import Interval
from tlbcost.remedies.remedy import Remedy, RemedyCost
from tlbcost.review.document import ReviewDocument, review_document
from tlbcost.review.gate import broken_rules
from tlbcost.review.plan import Plan, read_plan
from tlbcost.review.task import TaskResult

HOSTILE = '<script>alert("1")</script> | `x` \x1b[31m\n\u202eRTL' + "x" * 500


def plan_of(folder: Path, text: str) -> Plan:
    file = folder / "plan.toml"
    file.write_text(text, encoding="utf-8")
    return read_plan(file)


def worth_it() -> EstimateDocument:
    return estimate_document(advised(("./app",)))


def worthless() -> EstimateDocument:
    return estimate_document(estimated(0))


def there_already() -> EstimateDocument:
    made = estimated()
    return estimate_document(altered(made, gain=replace(made.gain, verdict="already_huge")))


def result(
    service: str,
    estimate: EstimateDocument | None,
    machine: str = "here",
    failure: str | None = None,
) -> TaskResult:
    return TaskResult(
        service=service, machine=machine, plan="0", date="2026-01-01T00:00:00Z", seconds=1.5,
        command=("tlbcost", "estimate", "--", "./app"), failure=failure, estimate=estimate,
    )  # fmt: skip


def remedy_of(code: str, words: str, steps: Sequence[str], **changes: object) -> Remedy:
    """A remedy that does not depend on this machine; a pool's pages are of its `cost`."""
    cost = RemedyCost(
        pool_pages=None, pool_page_bytes=None, growth_bytes=3 << 20,
        fault_ns=Interval(80_000, 70_000, 90_000), base_fault_ns=Interval(500, 400, 600),
        sentences=("after a fork, writes split the huge pages again",),
    )  # fmt: skip
    made = Remedy(code, "command", words, tuple(steps), "transparent", cost)
    return replace(made, **changes)  # type: ignore[arg-type]


def pooled(made: Remedy, pages: int, page_bytes: int = 2 << 20) -> Remedy:
    cost = replace(made.cost, pool_pages=pages, pool_page_bytes=page_bytes)
    return replace(made, pages="pool", cost=cost)


def by_malloc() -> Remedy:
    """Variables alone."""
    return remedy_of(
        "glibc-thp", "malloc asks for transparent huge pages",
        ["GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ./app"],
        environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
        proof="tlbcost trial --with glibc-thp -- ./app",
        source="https://sourceware.org/glibc/manual/latest/html_node/Memory-Allocation-Tunables.html",
    )  # fmt: skip


def by_pool() -> Remedy:
    """Variables and a pool."""
    made = remedy_of(
        "glibc-pool", "malloc takes huge pages of a pool",
        ["tlbcost pool reserve --page-size 2M 300",
         "GLIBC_TUNABLES=glibc.malloc.hugetlb=2 ./app"],
        environment={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=2"}, undo=("tlbcost pool restore",),
    )  # fmt: skip
    return pooled(made, 300)


def by_hugetlbfs() -> Remedy:
    """A file that moves to a file system of a pool."""
    made = remedy_of(
        "hugetlbfs", "a hugetlbfs holds the file",
        ["mkdir -p /mnt/tlbcost-hugetlbfs",
         "mount -t hugetlbfs -o pagesize=2M,mode=1777 tlbcost /mnt/tlbcost-hugetlbfs",
         "./app /mnt/tlbcost-hugetlbfs/table"],
        undo=("umount /mnt/tlbcost-hugetlbfs", "rmdir /mnt/tlbcost-hugetlbfs"),
    )  # fmt: skip
    return pooled(made, 65)


def gaining(gain: Interval, *remedies: Remedy) -> EstimateDocument:
    made = worth_it()
    advice = msgspec.structs.replace(made.what_to_do[0], remedies=remedies)
    return msgspec.structs.replace(made, total_fraction=gain, what_to_do=[advice])


FLEET = """
[policy]
least_gain = "3 %"
without = ["thp-always"]
[policy.gate]
most_translation = "20 %"
most_gain_left = "10 %"
most_growth = "1 %"
[machines.large]
hosts = 40
memory = "2 GiB"
price = 1.25
currency = "EUR"
[machines.small]
[[services]]
name = "cache"
machines = ["large", "small"]
cpu_share = "50 %"
command = ["./cache", "--size", "4 G"]
environment = { MODE = "a b" }
stdin = "requests"
[[services]]
name = "index"
machines = ["large"]
instances = 2
cpu_share = "20 %"
command = ["./index"]
[[services]]
name = "tables"
machines = ["large"]
instances = 4
command = ["./tables"]
[[services]]
name = "batch | nightly"
machines = ["large"]
command = ["./batch"]
[[services]]
name = "proxy"
machines = ["small"]
command = ["./proxy"]
[[services]]
name = "legacy <1>"
machines = ["small"]
command = ["./legacy"]
"""


def fleet(folder: Path) -> tuple[Plan, list[TaskResult]]:
    """A plan, and results of which each decision is one."""
    results = [
        result("cache", gaining(Interval(0.24, 0.2, 0.28), by_malloc()), "large"),
        result("cache", gaining(Interval(0.04, 0.01, 0.07), by_malloc()), "small"),
        result("index", gaining(Interval(0.12, 0.1, 0.14), by_pool()), "large"),
        result("tables", gaining(Interval(0.08, 0.07, 0.09), by_hugetlbfs()), "large"),
        result("batch | nightly", worthless(), "large"),
        result("proxy", there_already(), "small"),
        result("legacy <1>", None, "small", failure="cannot run ./legacy: no such file"),
    ]
    return plan_of(folder, FLEET), results


def fleet_review(folder: Path) -> ReviewDocument:
    """Their review, the same on every day, of every version and in every folder."""
    plan, results = fleet(folder)
    found = review_document(plan, results)
    rows = [
        msgspec.structs.replace(
            row,
            estimated_by=row.estimated_by and "1.0",
            shell_line=(row.shell_line or "").replace(str(folder), "/plans"),
        )
        for row in found.rows
    ]
    made = msgspec.structs.replace(
        found, rows=rows, tlbcost_version="1.0", date="2026-01-02T03:04:05Z"
    )
    return msgspec.structs.replace(made, broken=broken_rules(made, None))
