# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine whose counters say what a test wants, and counts as other tools print them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from tlbcost.counters.count_runs import count_program
from tlbcost.counters.event_counts import EventCount, EventCounts
from tlbcost.counters.importing.file import import_text
from tlbcost.processors.events import Pmu, load_pmu, select
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome

TRUE = Path("/bin/true")
ACTIVE = ["walk_active_cycles.load", "walk_active_cycles.store", "walk_active_cycles.fetch"]
COMPLETED = ["walks_completed.load", "walks_completed.store", "walks_completed.fetch"]


class CountingMachine:
    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self._plan = folder / "fake.json"
        self._calls = folder / "fake.json.calls"
        self.folder = folder
        self.launcher = launcher
        self.pmu = load_pmu("skl")
        self.says()

    def says(self, **plan: object) -> None:
        self._plan.write_text(json.dumps(plan), encoding="utf-8")

    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self._calls.read_text("utf-8").splitlines()]

    def asked(self) -> list[list[str]]:
        """The names of the events of each call."""
        return [
            [word.partition("=")[0] for option, word in pairwise(call)
             if option == "--event"]
            for call in self.calls()
        ]  # fmt: skip

    def count(
        self,
        *names: str,
        argv: Sequence[str] = ("true",),
        runs: int = 1,
        multiplex: bool = False,
        go_on: Callable[[Outcome], bool] = lambda _: True,
    ) -> EventCounts:
        return count_program(
            self.launcher, argv, self.pmu, select(self.pmu, names), path=TRUE,
            runs=runs, multiplex=multiplex, go_on=go_on,
        )  # fmt: skip


def write_rights(
    root: Path, status: str, uid_map: str | None = None, paranoid: str | None = None
) -> None:
    """What the kernel says of a process that may count, or may not."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/self/status").write_text(status, encoding="utf-8")
    if uid_map is not None:
        (root / "proc/self/uid_map").write_text(uid_map, encoding="utf-8")
    if paranoid is not None:
        (root / "proc/sys/kernel/perf_event_paranoid").write_text(paranoid, encoding="utf-8")


CSV = """\
1000000000,,cycles:u,400000000,100.00,,
300000000,,dtlb_load_misses.walk_active:u,300000000,75.00,,
<not counted>,,dtlb_store_misses.walk_active:u,0,0.00,,
<not supported>,,itlb_misses.walk_active:u,0,100.00,,
"""
SKYLAKE = load_pmu("skl")


def read(text: str, pmu: Pmu | None = SKYLAKE, object_name: str | None = None) -> EventCounts:
    return import_text(text, "file", pmu, object_name)


def value(counted: EventCounts, event: str) -> float | None:
    return next(count.value for count in counted.counts if count.event == event)


def state(counted: EventCounts, event: str) -> str:
    return next(count.state for count in counted.counts if count.event == event)


def cycles_of(cycles: float | None, source: str = "a", **more: object) -> EventCounts:
    counts = () if cycles is None else (EventCount("cycles", "cycles", cycles, None, "counted"),)
    return EventCounts(source=source, pmu="skl", mode="user", counts=counts, **more)  # type: ignore[arg-type]
