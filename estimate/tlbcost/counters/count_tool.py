# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost-count: its options, its table, what it watches, and what it found."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from types import FrameType
from typing import cast, get_args

from tlbcost.common import formats, paths
from tlbcost.common.errors import TOOL_FAILED, TlbcostError, full_disk_hint
from tlbcost.common.formats import Cell, count, format_table, parse_table
from tlbcost.common.units import Interval
from tlbcost.counters.event_counts import (
    EventCounts,
    Mode,
    Refusal,
    Scope,
    State,
    name_parts,
    whole,
)
from tlbcost.counters.pmu import CYCLES, PROGRAM, EventRequest
from tlbcost.processors.events import Pmu, evaluate, names
from tlbcost.run import process_tree
from tlbcost.system import hints
from tlbcost.system.machine import Machine

_STATES = get_args(State)


@dataclass(frozen=True, slots=True)
class Target:
    """Whose events are counted: `pid` with scope `process`, `cgroup` with scope `cgroup`."""

    scope: Scope = "program"
    pid: int | None = None
    cgroup: str | None = None

    def options(self) -> list[str]:
        return {
            "program": [],
            "process": ["--pid", str(self.pid)],
            "cgroup": ["--cgroup", str(self.cgroup)],
            "system": ["--all-cpus"],
        }[self.scope]

    def words(self) -> str | None:
        """For reports; None: a program of ours."""
        return {
            "program": None,
            "process": f"process {self.pid}",
            "cgroup": f"cgroup {self.cgroup}",
            "system": "the whole system",
        }[self.scope]


PROGRAM_ITSELF = Target()


@dataclass(frozen=True, slots=True)
class Reading:
    """One row of the table counters 1: what one event did in one interval; times in ns.

    `by_code`: libpfm4 did not know the event's name. `type`, `config` and `config1` are the
    kernel's. `why`: what libpfm4 said of an event that could not be encoded. `uncounted_ns`: CPU
    time of the whole run in which nothing was counted.
    """

    end_ns: int
    event: str
    count: int | None
    enabled_ns: int | None
    running_ns: int | None
    state: State
    error: int | None
    by_code: bool = False
    type: int | None = None
    config: int | None = None
    config1: int | None = None
    why: str | None = None
    uncounted_ns: int | None = None

    def refusal(self, request: EventRequest) -> Refusal:
        return Refusal(request.shown, self.state, self.error, self.why)


@dataclass(frozen=True, slots=True)
class CountPlan:
    """What is counted, of what, and how.

    `multiplex`: in one run, in which the events take turns; anything but a program of ours is
    always counted so. `interval_ms`: `show` gets the readings of each interval as it ends.
    """

    pmu: Pmu
    requests: tuple[EventRequest, ...]
    mode: Mode = "user"
    target: Target = PROGRAM_ITSELF
    multiplex: bool = False
    interval_ms: int | None = None
    show: Callable[[Sequence[Reading]], None] = lambda _: None

    @property
    def one_run(self) -> bool:
        return self.multiplex or self.interval_ms is not None or self.target.scope != "program"

    def options(self, events: Sequence[EventRequest]) -> list[str]:
        """What to count, and how; the first of `events` leads each group."""
        chosen: list[str] = []
        for each in events:
            chosen += ["--event", f"{each.name}={each.spec}"]
        if self.pmu.counters is not None:
            chosen += ["--counters", str(self.pmu.counters)]
            # The kernel's own events take no counter either.
            fixed = self.pmu.fixed
            free = [each.name for each in events if each.software or each.role_name in fixed]
            if free:
                chosen += ["--fixed", ",".join(free)]
        if self.multiplex:
            chosen.append("--multiplex")
        if self.mode != "both":
            chosen.append(f"--{self.mode}-only")
        chosen += self.target.options()
        if self.interval_ms is not None:
            chosen += ["--interval", str(self.interval_ms)]
        return chosen


def probe(pmu: Pmu, requests: Sequence[EventRequest], mode: Mode = "user") -> list[Refusal]:
    """The state of each event, opened on tlbcost-count itself. Raises TlbcostError (125)."""
    options = CountPlan(pmu, tuple(requests), mode).options(requests)
    words = [str(paths.libexec(PROGRAM)), *options, "--probe", "--quiet"]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise hints.cannot_run(words[0], error) from error
    found = by_event(parse_readings(done.stdout, f"{PROGRAM} --probe"), requests)
    return [found[each.name].refusal(each) for each in requests]


def parse_readings(text: str, name: str) -> list[Reading]:
    """The rows of a counters table. Raises TlbcostError with exit code 125 for any defect."""
    try:
        table = parse_table(text, name, formats.COUNTERS)
        lines = [text for key, text in table.header.items() if key.startswith("refused_")]
        whys = dict(text.split(": ", 1) for text in lines)
        missed = count(table.header.get("uncounted_ns"))
        rows = map(parse_reading, table.rows)
        return [replace(row, why=whys.get(row.event), uncounted_ns=missed) for row in rows]
    except (TlbcostError, ValueError) as error:
        raise TlbcostError(
            f"cannot count: {PROGRAM} wrote a table with a defect: {error}",
            full_disk_hint(Path(tempfile.gettempdir())),
            TOOL_FAILED,
        ) from error


def parse_reading(row: Sequence[str | None]) -> Reading:
    texts = (None if cell == "NA" else cell for cell in row)
    cells = dict(zip(formats.COUNTERS.columns, texts, strict=True))
    end_ns, event, state = count(cells["end_ns"]), cells["event"], cells["state"]
    if end_ns is None or event is None:
        raise ValueError("a row without a time or an event")
    if state not in _STATES:
        raise ValueError(f"not a state: {state}")
    value = count(cells["count"])
    enabled_ns, running_ns = count(cells["enabled_ns"]), count(cells["running_ns"])
    # Of an interval in which nothing was to be counted, 0 is the count.
    if value and not running_ns:
        raise ValueError(f"{event} has a count, but did not run")
    return Reading(
        end_ns,
        event,
        value,
        enabled_ns,
        running_ns,
        cast(State, state),
        count(cells["errno"]),
        cells["encoded_by"] == "code",
        _hexadecimal(cells["type"]),
        _hexadecimal(cells["config"]),
        _hexadecimal(cells["config1"]),
    )


def by_event(readings: Sequence[Reading], requests: Sequence[EventRequest]) -> dict[str, Reading]:
    """The result of each event over the whole time; one that the table lacks has failed."""
    rows: dict[str, list[Reading]] = {each.name: [] for each in requests}
    for row in readings:
        if row.event in rows:
            rows[row.event].append(row)
    return {
        name: _whole(parts) if parts else Reading(0, name, None, None, None, "failed", None)
        for name, parts in rows.items()
    }


def _whole(parts: Sequence[Reading]) -> Reading:
    """The readings of one event in several groups and in consecutive intervals as one."""
    last = parts[-1]
    if len(parts) == 1 or all(part.count is None for part in parts):
        return last
    intervals: dict[int, list[Reading]] = {}
    for part in parts:
        intervals.setdefault(part.end_ns, []).append(part)
    # Groups that take turns share an interval: each counts a part of it, not one after the other.
    counted = sum(_mean([part.count for part in own]) for own in intervals.values())
    enabled_ns = sum(_mean([part.enabled_ns for part in own]) for own in intervals.values())
    running_ns = sum(_mean([part.running_ns for part in own]) for own in intervals.values())
    state: State = "counted" if running_ns >= enabled_ns else "multiplexed"
    return replace(
        last, count=counted, enabled_ns=enabled_ns, running_ns=running_ns, state=state, error=None
    )


def _mean(values: Sequence[int | None]) -> int:
    return round(sum(value or 0 for value in values) / len(values))


def _hexadecimal(cell: str | None) -> int | None:
    return None if cell is None else int(cell, 16)


@contextlib.contextmanager
def intervals(
    fifo: Path, n_events: int, show: Callable[[Sequence[Reading]], None]
) -> Iterator[list[str]]:
    """Make `fifo`, for tlbcost-count to write to; each whole interval is shown.

    The lines of its table, which are all there once the block is left.
    """
    written: list[str] = []

    def follow() -> None:
        rows: list[Reading] = []
        with os.fdopen(reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                written.append(line)
                # What is no row is refused later, with the whole table.
                with contextlib.suppress(ValueError):
                    if not line.startswith("#"):
                        rows.append(parse_reading(line.rstrip("\n").split("\t")))
                    if len(rows) == n_events:
                        show(rows)
                        rows = []

    os.mkfifo(fifo, 0o600)
    # Opened before there is a writer, which would wait for us otherwise; and our own writing
    # end keeps us from seeing its end before tlbcost-count has opened it.
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    writer = os.open(fifo, os.O_WRONLY | os.O_CLOEXEC)
    os.set_blocking(reader, True)
    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield written
    finally:
        os.close(writer)
        thread.join()


def watch(words: Sequence[str]) -> int:
    """Run a tool (tlbcost-count, perf) until its target ends or SIGINT; its exit code, or the
    signal that ended it, negative.

    Raises TlbcostError with exit code 125 if it is not there.
    """
    process: subprocess.Popen[bytes] | None = None
    waiting = False

    def pass_on(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal waiting
        waiting = process is None
        if process is not None:
            process.send_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, pass_on)
    try:
        # In a process group of its own, so that it gets Ctrl-C once, from us.
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, process_group=0)
        if waiting:
            process.send_signal(signal.SIGINT)
        return process.wait()
    except BaseException as error:
        if process is not None:
            process_tree.end(process)
        elif isinstance(error, OSError):
            raise hints.cannot_run(words[0], error) from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)


# Formulas that only grow with each of their events but cycles, so that a sum without some of them
# is a lower bound.
_SUMS = ("share", "pending_share", "walks", "data_walks")


@dataclass(frozen=True, slots=True)
class PartialSum:
    """A formula's value where counts of some accesses are missing: what the others come to.

    `missing` are the names of the events that would make it whole.
    """

    value: Interval
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountFindings:
    """What a report on counts says. `requests` are in the order of the report."""

    version: str
    date: str
    machine: Machine
    pmu: Pmu
    requests: tuple[EventRequest, ...]
    counts: EventCounts
    figures: Mapping[str, Interval | None]

    @property
    def runs(self) -> int:
        return len({count.run for count in self.counts.counts})


def relevant(pmu: Pmu, requests: Sequence[EventRequest]) -> dict[str, str]:
    """The formulas of this CPU that any of the events has a part in, besides cycles."""
    known = {each.role_name for each in requests} - {CYCLES}
    return {key: formula for key, formula in pmu.formulas.items() if names(formula) & known}


def formula_values(formulas: Mapping[str, str], counts: EventCounts) -> dict[str, Interval | None]:
    """Median and range over runs that have all of a formula; else its value by the runs' means."""
    by_run, means = _by_run(counts, {})
    return {name: _value(expression, by_run, means) for name, expression in formulas.items()}


def partial_sums(formulas: Mapping[str, str], counts: EventCounts) -> dict[str, PartialSum]:
    """Sums of which some but not all events are counted; without loads they are left out."""
    obtained = counts.values()
    found: dict[str, PartialSum] = {}
    for key in _SUMS:
        summed = names(formulas[key]) - {CYCLES} if key in formulas else set()
        missing = sorted(summed - obtained.keys())
        has_loads = any(
            (name.split(".")[1:2] in (["load"], ["data"], ["any"]) or name == "dtlb_load_misses")
            for name in summed - set(missing)
        )
        if not missing or not has_loads:
            continue
        by_run, means = _by_run(counts, dict.fromkeys(missing, 0.0))
        value = _value(formulas[key], by_run, means)
        if value is not None:
            found[key] = PartialSum(value, tuple(missing))
    return found


def only_of_code(missing: Sequence[str]) -> bool:
    """Whether no count of loads or stores is among these events."""
    return all(name.split(".")[1:2] == ["fetch"] or name == "itlb_misses" for name in missing)


def _by_run(
    counts: EventCounts, others: Mapping[str, float]
) -> tuple[list[Mapping[str, float]], Mapping[str, float]]:
    """The counts of each run and their means, `others` being taken for what none has."""
    runs = sorted({count.run for count in counts.counts})
    return [{**others, **counts.values(run)} for run in runs], {**others, **counts.values()}


def _value(
    expression: str, by_run: Sequence[Mapping[str, float]], means: Mapping[str, float]
) -> Interval | None:
    whole = [evaluate(expression, values) for values in by_run]
    found = [value for value in whole if value is not None]
    if found:
        return Interval(median(found), min(found), max(found))
    value = evaluate(expression, means)
    return None if value is None else Interval(value, value, value)


def to_table(findings: CountFindings) -> str:
    counts = findings.counts
    header: dict[str, Cell] = asdict(findings.machine) | {
        "pmu": findings.pmu.key,
        "mode": counts.mode,
        "wall_ns": whole(counts.wall_ns),
        "user_ns": whole(counts.user_ns),
        "system_ns": whole(counts.system_ns),
        "minor_faults": whole(counts.minor_faults),
        "runs": findings.runs,
        "command": counts.command,
        "date": findings.date,
        "version": findings.version,
    }
    header |= {f"note_{i}": note for i, note in enumerate(counts.notes, start=1)}
    rows: list[tuple[Cell, ...]] = []
    for each in counts.counts:
        # An event is one word, as every cell.
        event = "_".join(each.event.split())
        values = whole(each.value), each.running_fraction, each.run, each.state
        rows.append((*name_parts(each.name), event, *values))
    return format_table(formats.COUNTED, header, rows)
