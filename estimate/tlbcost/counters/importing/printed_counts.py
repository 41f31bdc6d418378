# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts that another tool printed, added up, and the events that it means.

Tools spell one event in many ways: `dtlb_load_misses.walk_active`, `r1001008`,
`cpu/event=0x08,umask=0x10,cmask=0x1/u`, `PM_DTLB_MISS_GRP22`, `skl::DTLB_LOAD_MISSES:WALK_ACTIVE`.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.counters.event_counts import EventCount, EventCounts, Mode, State
from tlbcost.processors.events import Event, Pmu, generic_pmu

# perf's letters after an event; precise, pinned, weak and the like do not change what is counted.
_MODIFIERS = re.compile(r"(?P<event>.+?)(?P<sign>[:/])(?P<letters>[ukhGHIpPSDWebR]+)", re.ASCII)
_SOURCE = re.compile(r"(?P<source>[\w.-]+)/(?P<terms>[^/]*)/?", re.ASCII)
_RAW = re.compile(r"(?:r|raw 0x|0x)(?P<code>[0-9a-f]{1,16})", re.ASCII)
# perf's way to say which of several sources of events an event is of.
_OF_SOURCE = re.compile(r"(?P<event>\S+) \[(?P<source>\S+)\]")
# Bits of x86's event registers that the kernel sets itself: USR, OS, INT and EN.
_IGNORED_BITS = 1 << 16 | 1 << 17 | 1 << 20 | 1 << 22
_ANY_THREAD = re.compile(r"CPU_CLK_UNHALTED:(?:THREAD|CORE)(?:_P)?_ANY|R20003C", re.ASCII)
_NUMBER = re.compile(r"0x[0-9a-f]{1,16}|0|[1-9][0-9]{0,19}", re.ASCII)
# oprofile names the group of POWER's counters that an event was counted in.
_GROUP = re.compile(r"_GRP[0-9]+$", re.ASCII)

# The kernel's and the vendors' other names of what every CPU counts.
_ALIASES = {
    alias: name
    for name, aliases in {
        "cycles": "CPU_CYCLES CYCLES CPU_CLK_UNHALTED CPU_CLK_UNHALTED:THREAD "
        "CPU_CLK_UNHALTED:THREAD_P CPU_CLK_UNHALTED:CORE CPU_CLK_UNHALTED:CORE_P "
        "LS_NOT_HALTED_CYC PM_CYC PM_RUN_CYC",
        "instructions": "INSTRUCTIONS INST_RETIRED INST_RETIRED:ANY INST_RETIRED:ANY_P "
        "EX_RET_INSTR PM_INST_CMPL PM_RUN_INST_CMPL",
        "page_faults": "FAULTS",
        "context_switches": "CS",
    }.items()
    for alias in aliases.split()
}
# Fields of x86's config, as the kernel's format files name them: lowest bit.
_X86 = {"umask": 8, "edge": 18, "any": 21, "inv": 23, "cmask": 24}
# The event sources that are a core's; of two kinds of cores each has its own.
_HYBRID = ("cpu_core", "cpu_atom")
_NO_CODES = ("hardware", "software", "cache")
_CORE = re.compile(r"cpu|cpum_cf|armv[0-9]\w*|apple_\w+|riscv\w*", re.ASCII)
# Terms that say how to count, not what.
_IDLE_TERMS = ("name", "period", "freq", "percore", "ldlat")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a foreign event is. `name` None: it has no role; `mode` None: of a kernel's count.

    `note` is a sentence where the name alone does not say what was counted. `source` is the event
    source that was named, None: the kernel's choice.
    """

    name: str | None
    mode: Mode | None
    note: str | None = None
    source: str | None = None


def meaning(foreign: str, pmu: Pmu | None) -> Meaning:
    """The role of an event named as in another tool's output, on the CPU `pmu` (None: unknown)."""
    plain, mode = _without_modifiers(_OF_SOURCE.sub(r"\g<source>/\g<event>/", foreign))
    split = _SOURCE.fullmatch(plain)
    source = split["source"] if split else None
    if source in _HYBRID and source not in _kinds(pmu):
        return Meaning(None, mode, f"{foreign} is left out: it is of other cores", source)
    event = _row(plain, pmu)
    if event is None:
        return Meaning(None, mode)
    if event.type == "cache" and (pmu in (None, generic_pmu()) or event not in pmu.events):
        return _generic(foreign, plain, event, pmu, mode)
    return Meaning(event.name, None if event.type == "software" else mode, None, source)


def of_whole_core(foreign: str) -> bool:
    """Whether it counts cycles in which any hyperthread of the core runs."""
    return _ANY_THREAD.fullmatch(_canonical(_without_modifiers(foreign)[0])) is not None


def _kinds(pmu: Pmu | None) -> set[str]:
    """The kind of core that the table is of, on CPUs that have two; else the first kind."""
    found = {event.type for event in pmu.events} & set(_HYBRID) if pmu else set()
    return found or {_HYBRID[0]}


def _without_modifiers(foreign: str) -> tuple[str, Mode]:
    """`cycles:u` is `cycles` in user mode; without u or k both are counted."""
    found = _MODIFIERS.fullmatch(foreign)
    if found is None:
        return foreign, "both"
    letters = found["letters"]
    plain = found["event"] + ("/" if found["sign"] == "/" else "")
    if found["sign"] == "/" and "/" not in found["event"]:
        return foreign, "both"
    user, kernel = "u" in letters, "k" in letters
    return plain, "both" if user == kernel else "user" if user else "kernel"


def _generic(foreign: str, plain: str, event: Event, pmu: Pmu | None, mode: Mode) -> Meaning:
    """The kernel's events for TLBs count on each CPU what the kernel's authors found near."""
    if pmu in (None, generic_pmu()):
        note = f"what {plain} counts is the kernel's choice for each CPU: name the CPU"
        return Meaning(event.name, mode, note)
    found = pmu.generic.get(re.sub(r"[^a-z]", "_", plain.lower()))
    if found is None or found.counts is None:
        text = f": {found.event}" if found and found.event else ""
        return Meaning(None, mode, f"what {foreign} counts on {pmu.name} is not known{text}")
    note = f"{plain} counts {found.counts} on {pmu.name}: {found.event}"
    return Meaning(found.counts, mode, note)


def _row(plain: str, pmu: Pmu | None) -> Event | None:
    """The row of the CPU's table, else of the kernel's own events."""
    rows = generic_pmu().events if pmu is None else (*pmu.events, *generic_pmu().events)
    kept = ~_IGNORED_BITS if pmu is not None and pmu.architecture == "x86_64" else -1
    source = _SOURCE.fullmatch(plain)
    if source is not None:
        named = source["source"]
        core = named in _HYBRID or _CORE.fullmatch(named) is not None
        types = {named, *(("raw", "hardware", "cache", *_HYBRID) if core else ())}
        rows = tuple(event for event in rows if event.type in types)
        text, fields = _terms(source["terms"])
        if text is None:
            return _by_code(_code(fields), rows, kept)
        letters = {"cmask": "c", "inv": "i", "edge": "e", "any": "t"}
        given = (f"{letters.get(key, key)}={value}" for key, value in fields.items() if value)
        plain = ":".join([text, *given])
    raw = _RAW.fullmatch(plain.lower())
    if raw is not None:
        return _by_code(int(raw["code"], 16), rows, kept)
    wanted = _canonical(plain)
    for event in rows:
        if event.string is not None and _canonical(event.string) == wanted:
            return event
    alias = _ALIASES.get(wanted)
    return next((event for event in rows if event.name == alias), None)


def _terms(text: str) -> tuple[str | None, dict[str, int]]:
    """A name among the terms of `cpu/.../`, and the fields that are numbers; 1 without a value."""
    name: str | None = None
    fields: dict[str, int] = {}
    for term in text.split(","):
        key, equals, value = term.strip().lower().partition("=")
        if key in _IDLE_TERMS:
            continue
        if equals:
            fields[key] = int(value, 0) if re.fullmatch(_NUMBER, value) else -1
        elif key in _X86:
            fields[key] = 1
        elif name is None:
            name = term.strip()
    return name, fields


def _code(fields: dict[str, int]) -> int | None:
    """perf_event_attr's config; None if there is a field that it is not known of."""
    known = {"event", "config", *_X86}
    if not fields or not set(fields) <= known or min(fields.values()) < 0:
        return None
    event = fields.get("event", 0)
    code = fields.get("config", 0)
    if event <= 0xFFF and fields.keys() & _X86.keys():
        # AMD has four more bits of the event, far from the first eight.
        code |= (event & 0xFF) | (event >> 8) << 32
    else:
        code |= event
    for key, bit in _X86.items():
        code |= fields.get(key, 0) << bit
    return code


def _by_code(code: int | None, rows: tuple[Event, ...], kept: int) -> Event | None:
    """`kept`: the bits of the code that say what is counted."""
    if code is None:
        return None
    coded = (e for e in rows if e.config1 is None and e.type not in _NO_CODES)
    return next((event for event in coded if event.code == code & kept), None)


@functools.cache
def _canonical(name: str) -> str:
    """One spelling for all: upper case, `:` between the parts, `_` within them."""
    tail = name.rpartition("::")[2].upper()
    return _GROUP.sub("", tail.replace(".", ":").replace("-", "_"))


# A counter that ran for less than this share of the time was scaled.
WHOLE = 0.9995
NS = {"": 1.0, "ns": 1.0, "nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}
# What perf counts as events, too.
DURATIONS = {"duration_time": "wall_ns", "user_time": "user_ns", "system_time": "system_ns"}

NOT_COUNTED: dict[str, State] = {"<not counted>": "never_ran", "<not supported>": "unsupported"}
UNIT = re.compile(r"(?:[A-Za-z%][A-Za-z%/^0-9.-]*)?", re.ASCII)
CLOCKS = ("task-clock", "cpu-clock")
_NUMBER_ALONE = re.compile(r"\s*[0-9][0-9.,]*\W*", re.ASCII)
_NEVER = (
    "they never had a counter",
    "a group {...} may have more events than the CPU has counters, of which the NMI watchdog takes "
    "one: count without the group, or after 'echo 0 > /proc/sys/kernel/nmi_watchdog'",
)
_NO_COUNTERS = ("no counter there has them", "count on the machine itself, not in a virtual one")


@dataclass(frozen=True, slots=True)
class PrintedCount:
    """One printed count. `value` None: not counted, `state` says why.

    `time` is the end of its interval, `part` the CPU, socket or thread it is of, as printed, and
    `cgroup` the cgroup; None: of all. `line` is where in the file.
    """

    line: int
    event: str
    value: float | None
    unit: str
    state: State
    running_fraction: float | None = None
    time: str | None = None
    part: str | None = None
    cgroup: str | None = None

    @staticmethod
    def of(
        line: int, event: str, word: str, unit: str, fraction: float | None, time: str | None,
        part: str | None, cgroup: str | None,
    ) -> PrintedCount:  # fmt: skip
        """As it is printed: `word` is the number, or why there is none. Raises ValueError."""
        state = NOT_COUNTED.get(word)
        value = None if state else number(word)
        if value is not None and fraction == 0:
            value, state = None, "never_ran"
        if not unit and event.startswith(CLOCKS):
            # The first perf printed milliseconds without their unit, perf 6.19 nanoseconds.
            unit = "ns" if value is None or value.is_integer() else "msec"
        found, running = state or "counted", None if state else fraction
        return PrintedCount(
            line, event, value, unit, found, running, time, part or None, cgroup or None
        )


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a file says besides its counts. Times in ns, None: not known.

    `subject` is what was counted, in perf's words: a command, `system wide`, a process.
    """

    wall_ns: float | None = None
    user_ns: float | None = None
    system_ns: float | None = None
    command: str | None = None
    subject: str | None = None
    notes: tuple[str, ...] = ()


Output = tuple[list[PrintedCount], FileFacts]


def add_up(
    name: str, readings: Sequence[PrintedCount], facts: FileFacts, pmu: Pmu | None
) -> EventCounts:
    """The counts of the whole: the parts and intervals added up.

    `name` stands for the file in messages. Raises TlbcostError if events of a role were counted in
    different modes: their quotients would mean nothing.
    """
    notes = list(facts.notes)
    kept, silent = _without_idle(readings)
    if silent:
        notes.append(f"{silent} parts in which no event was counted are left out")
    counts = []
    meanings: dict[str, Meaning] = {}
    times: dict[str, float | None] = {}
    for event, parts in _by_event(kept):
        if event not in meanings:
            meanings[event] = meaning(event, pmu)
        count, note = _added(event, parts, meanings[event])
        counts.append(count)
        notes += [note] if note else []
        if event in DURATIONS and count.value is not None:
            times[DURATIONS[event]] = count.value * NS.get(parts[0].unit, 1.0)
    _check_sources(name, meanings)
    seen = {count.event for count in counts if count.value is not None}
    notes += [m.note for event, m in meanings.items() if m.note and event in seen]
    parts_read = {reading.part for reading in readings} - {None}
    if len(parts_read) > 1:
        notes.append(f"counts of {len(parts_read)} CPUs, sockets or threads are added up")
    return EventCounts(
        source=name,
        pmu=(pmu or generic_pmu()).key,
        mode=_mode(name, meanings),
        counts=tuple(counts),
        wall_ns=facts.wall_ns if facts.wall_ns is not None else times.get("wall_ns"),
        user_ns=facts.user_ns if facts.user_ns is not None else times.get("user_ns"),
        system_ns=facts.system_ns if facts.system_ns is not None else times.get("system_ns"),
        minor_faults=next((c.value for c in counts if c.name == "minor_faults"), None),
        command=facts.command,
        notes=tuple(dict.fromkeys(notes)),
    )


def number(text: str) -> float:
    """A finite number that is not negative. Raises ValueError."""
    value = float(text)
    if not math.isfinite(value) or value < 0 or not text.isascii():
        raise ValueError(f"not a count: {text}")
    return value


def percent(text: str) -> float:
    """A share from its percentage. Raises ValueError; perf's rounding may exceed 100."""
    value = number(text)
    if value > 100.5:
        raise ValueError(f"not a percentage: {text}")
    return min(1.0, round(value / 100, 6))


def last_time(name: str, readings: Sequence[PrintedCount]) -> float | None:
    """End of the last interval, in ns. Raises TlbcostError if only some readings have one."""
    times = [float(reading.time) for reading in readings if reading.time is not None]
    if times and len(times) != len(readings):
        odd = next(reading for reading in readings if reading.time is None)
        raise TlbcostError(
            f"cannot read counts from {name}:{odd.line}: it has no time, but other lines have one"
        )
    return round(1e9 * max(times)) if times else None


def refused(name: str, line: int, why: str) -> TlbcostError:
    return TlbcostError(f"cannot read counts from {name}:{line}: {why}")


def note_of_unread(
    name: str, unread: Sequence[tuple[int, str]], readings: Sequence[PrintedCount]
) -> list[str]:
    """Which lines are no counts. Raises TlbcostError naming one that is what is left of a count."""
    events = {reading.event for reading in readings}
    for line, text in unread:
        of_event = re.search("[0-9]", text) and events & set(re.split(r"[\s,;|]+", text))
        if of_event or _NUMBER_ALONE.fullmatch(text):
            raise refused(name, line, "expected a count and an event's name")
    first = [f"{line}: {text.strip()[:60]}" for line, text in unread[:1]]
    return [f"{len(unread)} lines are no counts and were left out, first {each}" for each in first]


def _without_idle(readings: Sequence[PrintedCount]) -> tuple[list[PrintedCount], int]:
    """Without the intervals and threads in which nothing ran, so that no counter could count."""
    cells: dict[tuple[str | None, str | None], list[PrintedCount]] = {}
    for reading in readings:
        cells.setdefault((reading.time, reading.part), []).append(reading)
    idle = {
        cell
        for cell, found in cells.items()
        if len(cells) > 1
        and any(reading.state == "never_ran" for reading in found)
        and all(reading.state in ("never_ran", "unsupported") for reading in found)
    }
    if len(idle) == len(cells):
        return list(readings), 0
    return [r for r in readings if (r.time, r.part) not in idle], len(idle)


def _by_event(readings: Iterable[PrintedCount]) -> list[tuple[str, list[PrintedCount]]]:
    """The readings of each event; one that is listed twice, in two groups, stays twice."""
    seen: Counter[tuple[str, str | None, str | None]] = Counter()
    found: dict[tuple[str, int], list[PrintedCount]] = {}
    for reading in readings:
        key = reading.event, reading.time, reading.part
        found.setdefault((reading.event, seen[key]), []).append(reading)
        seen[key] += 1
    return [(event, parts) for (event, _), parts in found.items()]


def _added(
    event: str, parts: Sequence[PrintedCount], means: Meaning
) -> tuple[EventCount, str | None]:
    """The sum of the parts, which is not known if one of them is not; and a sentence why."""
    missing = [part for part in parts if part.value is None]
    if missing:
        of = f"{len(missing)} of {len(parts)}"
        note = f"{event}: {of} parts were not counted, so none is used"
        count = EventCount(means.name, event, None, None, missing[0].state)
        return count, note if len(missing) < len(parts) else None
    values = [part.value for part in parts if part.value is not None]
    total = math.fsum(values)
    if event.startswith(CLOCKS):
        total = float(round(total * NS.get(parts[0].unit, 1.0)))
    fractions = [part.running_fraction for part in parts]
    known = [fraction for fraction in fractions if fraction is not None]
    fraction = math.fsum(known) / len(known) if len(known) == len(parts) else None
    state: State = "multiplexed" if fraction is not None and fraction < WHOLE else "counted"
    return EventCount(means.name, event, total, fraction, state), None


def _mode(name: str, meanings: dict[str, Meaning]) -> Mode | None:
    """The one mode that all events with a role were counted in; None: there is no such event."""
    modes = {m.mode: event for event, m in meanings.items() if m.name and m.mode}
    if len(modes) > 1:
        (one, event), (other, another) = list(modes.items())[:2]
        words = {"user": "user mode", "kernel": "the kernel", "both": "user mode and the kernel"}
        raise TlbcostError(
            f"cannot use the counts of {name}: {event} counts {words[one]}, but {another} counts "
            f"{words[other]}",
            "count them all with :u, or all without",
        )
    return next(iter(modes), None)


def _check_sources(name: str, meanings: dict[str, Meaning]) -> None:
    """Cycles of slow cores and of fast ones are not the same cycles."""
    sources = {m.source: event for event, m in meanings.items() if m.name and m.source}
    if len(sources) > 1:
        one, other = list(sources.values())[:2]
        raise TlbcostError(
            f"cannot use the counts of {name}: {one} and {other} are of two kinds of cores",
            "bind the program to one kind with taskset, and count on that",
        )


def not_counted(counts: EventCounts, missing: Set[str]) -> TlbcostError | None:
    """The error if some of what is missing was asked for; None: none was."""
    idle = [count for count in counts.counts if count.name is not None and count.value is None]
    any_thread = [count.event for count in counts.counts if of_whole_core(count.event)]
    if any(count.name in missing for count in idle):
        never = [count for count in idle if count.state == "never_ran"]
        why, hint = _NEVER if never else _NO_COUNTERS
        why = f"not counted, since {why}: {', '.join(count.event for count in never or idle)}"
    elif any_thread and "cycles" in missing:
        why = f"{any_thread[0]} counts while either hyperthread of the core runs, not the program"
        hint = "count cycles, too"
    else:
        return None
    return TlbcostError(f"no estimate: {why}", hint, CANNOT_MEASURE)
