# SPDX-License-Identifier: GPL-2.0-or-later
"""The row of data/events that is meant by the name of an event that another tool counted.

Tools spell one event in many ways: `dtlb_load_misses.walk_active`, `r1001008`,
`cpu/event=0x08,umask=0x10,cmask=0x1/u`, `PM_DTLB_MISS_GRP22`, `skl::DTLB_LOAD_MISSES:WALK_ACTIVE`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from tlbcost.counters.event_counts import Mode
from tlbcost.processors.event_tables import generic_pmu
from tlbcost.processors.events import Event, Pmu

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
    return Meaning(
        found.counts, mode, f"{plain} counts {found.counts} on {pmu.name}: {found.event}"
    )


def _row(plain: str, pmu: Pmu | None) -> Event | None:
    """The row of the CPU's table, else of the kernel's own events."""
    rows = generic_pmu().events if pmu is None else (*pmu.events, *generic_pmu().events)
    kept = ~_IGNORED_BITS if pmu is not None and pmu.architecture == "x86_64" else -1
    source = _SOURCE.fullmatch(plain)
    if source is not None:
        named = source["source"]
        core = named in _HYBRID or _CORE.fullmatch(named) is not None
        rows = tuple(
            event
            for event in rows
            if event.type == named
            or (core and (event.type in ("raw", "hardware", "cache", *_HYBRID)))
        )
        text, fields = _terms(source["terms"])
        if text is None:
            return _by_code(_code(fields), rows, kept)
        letters = {"cmask": "c", "inv": "i", "edge": "e", "any": "t"}
        plain = ":".join(
            [
                text,
                *([f"{letters.get(key, key)}={value}" for key, value in fields.items() if value]),
            ]
        )
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
    for event in rows:
        if (
            code is not None
            and event.code == code & kept
            and event.config1 is None
            and event.type not in _NO_CODES
        ):
            return event
    return None


@functools.cache
def _canonical(name: str) -> str:
    """One spelling for all: upper case, `:` between the parts, `_` within them."""
    tail = name.rpartition("::")[2].upper()
    return _GROUP.sub("", tail.replace(".", ":").replace("-", "_"))
