# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of events in a perf.data file, or as perf script prints them, added up by place."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, NamedTuple

from tlbcost.common import document, names, units
from tlbcost.common.document import Part, doc
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError

CpuMode = Literal["user", "kernel", "hypervisor", "guest"]

# Where `tlbcost record` writes the samples unless a file is named.
DEFAULT_FILE = Path("tlbcost-perf.data")
# The program that starts the one that is sampled: its own samples are left out.
LAUNCHER = "tlbcost-run"

_FIELDS = ["comm", "pid", "tid", "cpu", "misc", "event", "period", "addr", "data_src", "ip", "sym"]
_MISSING = re.compile(r"Cannot print '(\w+)' field")
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\b\D*(\d+)")
# comm is 16 characters wide, and may have blanks. Decoded data_src: |OP LOAD|LVL L1 hit|...
_LINE = re.compile(
    r"\s*(?P<pid>-?\d+)/(?P<tid>-?\d+)\s+(?:\[(?P<cpu>\d+)\]\s+)?(?:(?P<mode>[KUHGg])\S*\s+)?"
    r"(?:(?P<period>\d+)\s+)?(?P<event>\S(?:.*?\S)?):\s+"
    r"(?:(?P<address>[0-9a-f]+) \S.*? \((?P<data>.*)\)\s+)?"
    r"(?:(?P<source>[0-9a-f]+) \|.*?\s)?"
    r"(?P<ip>[0-9a-f]{4,16}) (?P<symbol>.*?) \((?P<object>.*)\)",
    re.DOTALL,
)
_LONGEST = 16384
_MAGIC = (b"PERFILE2", b"2ELIFREP")
# What perf makes of each record of Arm's SPE, besides "memory".
_AGAIN = frozenset({
    "l1d-miss", "l1d-access", "llc-miss", "llc-access", "tlb-miss", "tlb-access", "branch-miss",
    "remote-access",
})  # fmt: skip
_MODES: dict[str, CpuMode] = {
    "U": "user", "K": "kernel", "H": "hypervisor", "G": "guest", "g": "guest",
}  # fmt: skip
_UNKNOWN = "[unknown]"
_NAMES = {_UNKNOWN: None, "//anon": "[anonymous]", "[kernel.kallsyms]": "[kernel]"}
_SHARED = ("/dev/zero (deleted)", "/SYSV")


class Sample(NamedTuple):
    """One sample. `object` and `data`: the mapping of the code and of the accessed data, a path or
    a name in brackets. `source`: perf_mem_data_src of the kernel. `weight`: events it stands for.
    """

    event: str
    pid: int
    tid: int
    cpu: int | None
    mode: CpuMode | None
    object: str | None
    symbol: str | None
    address: int | None
    data: str | None
    source: int | None
    weight: int


@dataclass(frozen=True, slots=True)
class SampleHit:
    """Samples at one place; `data_tlb`: l1_hit, stlb_hit, hit (of either) or walk."""

    event: str
    pid: int
    object: str | None
    symbol: str | None
    mode: CpuMode | None
    data: str | None
    data_tlb: str | None
    samples: int
    weight: int


# All of a SampleHit but its numbers.
_SampledPlace = tuple[str, int, str | None, str | None, CpuMode | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Hits:
    """Samples of a recording by place, most events first; `lost`: records that did not fit."""

    hits: tuple[SampleHit, ...]
    lost: int

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(hit.event for hit in self.hits))


def is_recording(path: Path) -> bool:
    """Whether the file is perf.data, or samples as perf script prints them. False for a pipe."""
    return path.is_file() and _kind(path) is not None


def _kind(path: Path) -> Literal["recorded", "printed"] | None:
    start = b""
    # Who reads it says why.
    with contextlib.suppress(OSError), path.open("rb") as file:
        start = file.read(_LONGEST)
    lines = start.decode(errors="replace").splitlines()[:4]
    if any(_LINE.fullmatch(line, 16) for line in lines):
        return "printed"
    return "recorded" if start.startswith(_MAGIC) else None


def read_samples(path: Path) -> tuple[list[Sample], int]:
    """Samples, and how many records were lost. Raises TlbcostError if perf cannot print them."""
    if _kind(path) != "printed":
        return samples_in(_printed(path))
    return samples_in(path.read_text(errors="surrogateescape").splitlines())


def samples_in(lines: Iterable[str]) -> tuple[list[Sample], int]:
    samples, lost, broken = [], 0, ""
    for line in lines:
        # A name of a file may have a newline.
        found = _LINE.fullmatch(line, 16) or _LINE.fullmatch(f"{broken}{line}", 16)
        if found is not None:
            if found.string[:16].strip() != LAUNCHER:
                samples.append(_sample(found))
            broken = ""
        elif (missed := _LOST.search(line)) is not None:
            lost += int(missed[1])
        else:
            broken = f"{broken}{line}\n"[:_LONGEST]
    return samples, lost


def read_hits(path: Path) -> Hits:
    return hits_of(*read_samples(path))


def hits_of(samples: Iterable[Sample], lost: int) -> Hits:
    number: Counter[_SampledPlace] = Counter()
    weight: Counter[_SampledPlace] = Counter()
    samples = list(samples)
    if any(each.event == "memory" for each in samples):
        samples = [each for each in samples if each.event not in _AGAIN]
    for each in samples:
        tlb = None if each.source is None else data_tlb(each.source)
        place = (each.event, each.pid, each.object, each.symbol, each.mode, each.data, tlb)
        number[place] += 1
        weight[place] += each.weight
    hits = [SampleHit(*place, number[place], weight[place]) for place in number]
    return Hits(tuple(sorted(hits, key=lambda hit: -hit.weight)), lost)


def doubts(hits: Hits) -> list[str]:
    found = []
    if hits.lost:
        found.append(f"{hits.lost:,} records were lost: the program was faster than perf; a longer "
                     "--period loses fewer")  # fmt: skip
    if not hits.hits:
        found.append("nothing was sampled: no counter reached its sampling period")
    return found


def data_tlb(source: int) -> str | None:
    """Where the data's translation was found; None: not known (mem_dtlb of linux/perf_event.h)."""
    tlb = source >> 26 & 0x7F
    hit, missed, l1, l2, walk = tlb & 2, tlb & 4, tlb & 8, tlb & 16, tlb & (32 | 64)
    if tlb & 1:
        return None
    if missed and (l2 or walk):
        return "walk"
    # Arm's SPE says "walker hit" of an access that needed no walk (perf's arm-spe.c).
    if hit and walk:
        return "hit"
    if not hit or not (l1 or l2):
        return None
    # Intel's load latency event sets both levels if it does not know which.
    return "hit" if l1 and l2 else "l1_hit" if l1 else "stlb_hit"


def is_from_memory(source: int) -> bool | None:
    """Whether the data came from memory, not a cache; None: not known (mem_lvl, mem_lvl_num)."""
    level, number = source >> 5 & 0x3FFF, source >> 33 & 0xF
    missed, l1, lfb, l2, l3 = level & 4, level & 8, level & 16, level & 32, level & 64
    memory, other_caches = level & 0x380, level & 0xC00
    # Kernels say it in the one field, in the other, or in both: CXL, RAM, PMEM.
    if memory or number in (0x9, 0xD, 0xE):
        return True
    if missed:
        return True if l3 else None
    if l1 or lfb or l2 or l3 or other_caches or number in (1, 2, 3, 4, 0xB, 0xC):
        return False
    return None


def perf() -> str:
    found = shutil.which("perf")
    if found is None:
        hint = "install perf (Debian: linux-perf; others: perf, linux-tools)"
        raise TlbcostError("perf is not installed, which takes samples", hint, CANNOT_MEASURE)
    return found


def _printed(path: Path) -> Iterator[str]:
    fields = list(_FIELDS)
    while True:
        words = [
            perf(), "script", "--force", "--no-inline", "--show-lost-events", "-i", str(path),
            "-F", ",".join([*fields, "dso"]),
        ]  # fmt: skip
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True,
            errors="surrogateescape",
        )  # fmt: skip
        missing = _MISSING.search(done.stderr)
        if done.returncode == 0 or missing is None or missing[1] not in fields:
            break
        # Symbols of an address need it.
        fields.remove(missing[1])
    if done.returncode != 0:
        why = " ".join(done.stderr.split()) or f"perf script gave {done.returncode}"
        raise TlbcostError(f"{path}: not a recording that perf can read: {why}")
    yield from done.stdout.splitlines()


def _sample(found: re.Match[str]) -> Sample:
    source, address, cpu, period = found["source"], found["address"], found["cpu"], found["period"]
    symbol = found["symbol"]
    return Sample(
        event=found["event"],
        pid=int(found["pid"]),
        tid=int(found["tid"]),
        cpu=None if cpu is None else int(cpu),
        mode=_MODES.get(found["mode"] or ""),
        object=_name(found["object"]),
        symbol=None if symbol == _UNKNOWN else symbol,
        address=int(address, 16) if address and int(address, 16) else None,
        data=None if not found["data"] else _name(found["data"]),
        source=None if source is None else int(source, 16),
        weight=1 if period is None else int(period),
    )


def _name(mapping: str) -> str | None:
    if mapping.startswith(_SHARED):
        return "[shared]"
    return _NAMES.get(mapping, mapping)


By = Literal["object", "symbol", "mapping"]

# Object, symbol, data and its TLB, as in a row.
_Place = tuple[str | None, str | None, str | None, str | None]

# Rows at most unless another number is asked for.
DEFAULT_ROWS = 15
_COLUMNS = 80
_SAMPLES, _PERCENT = 10, 8
_NARROWEST = 12
_TITLES = {"object": ("object",), "symbol": ("object", "symbol"), "mapping": ("data", "TLB")}


@dataclass(frozen=True, slots=True)
class EventSamples:
    """The samples of one event."""

    samples: Annotated[int, doc("how many")]
    estimated: Annotated[int, doc("the events that they stand for")]

    def plus(self, hit: SampleHit) -> EventSamples:
        return EventSamples(self.samples + hit.samples, self.estimated + hit.weight)


NO_SAMPLES = EventSamples(0, 0)


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One place. null: not known, or not asked for."""

    object: Annotated[str | None, doc("path of the object that the code is in, or a [name]")]
    symbol: Annotated[str | None, doc("the function")]
    data: Annotated[str | None, doc("the mapping that the data is in")]
    data_tlb: Annotated[str | None, doc('which TLB the data hit, as in doc/format.md, "hits"')]
    events: Annotated[
        dict[str, EventSamples], doc("by event; one that is absent has no sample here")
    ]


@dataclass(frozen=True, slots=True)
class Profile:
    """What is printed. `limit`: rows at most. `notes` are sentences."""

    hits: Hits
    by: By
    limit: int = DEFAULT_ROWS
    notes: tuple[str, ...] = ()


def rows(hits: Sequence[SampleHit], by: By) -> list[ProfileRow]:
    """Rows of a profile, sorted by the first event that has samples, then by the others."""
    found: dict[_Place, dict[str, EventSamples]] = {}
    for hit in hits:
        place: _Place
        if by == "mapping":
            place = (None, None, hit.data, hit.data_tlb)
        else:
            place = (hit.object, hit.symbol if by == "symbol" else None, None, None)
        events = found.setdefault(place, {})
        events[hit.event] = events.get(hit.event, NO_SAMPLES).plus(hit)
    order = list(dict.fromkeys(hit.event for hit in hits))

    def key(row: ProfileRow) -> tuple[list[int], tuple[str, ...]]:
        names = (row.object, row.symbol, row.data, row.data_tlb)
        most = [-row.events.get(event, NO_SAMPLES).estimated for event in order]
        return most, tuple(name or "" for name in names)

    return sorted((ProfileRow(*place, events) for place, events in found.items()), key=key)


def totals(hits: Hits) -> dict[str, EventSamples]:
    found = dict.fromkeys(hits.events, NO_SAMPLES)
    for hit in hits.hits:
        found[hit.event] = found[hit.event].plus(hit)
    return found


def short_names(objects: Sequence[str | None]) -> dict[str, str]:
    paths = {name for name in objects if name is not None and name.startswith("/")}
    short = {path: names.shown(PurePosixPath(path).name or path) for path in paths}
    taken = Counter(short.values())
    return {path: short[path] if taken[short[path]] == 1 else names.shown(path) for path in paths}


def describe(profile: Profile) -> str:
    hits = profile.hits
    whole = totals(hits)
    lines = [
        f"{name}: {found.samples:,} samples, which stand for {units.count(found.estimated)}"
        for name, found in whole.items()
    ]
    shown = rows(hits.hits, profile.by)
    if shown:
        lines += ["", *_table(profile, shown)]
    notes = [*doubts(hits), *profile.notes]
    if notes:
        lines.append("")
    for note in notes:
        lines += textwrap.wrap(
            note, _COLUMNS, initial_indent="note: ", subsequent_indent="      ",
            break_on_hyphens=False, break_long_words=False,
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def _table(profile: Profile, shown: Sequence[ProfileRow]) -> list[str]:
    whole = totals(profile.hits)
    events = list(whole)
    short = short_names([row.object for row in shown] + [row.data for row in shown])
    titles = _TITLES[profile.by]
    pair = _SAMPLES + _PERCENT
    cut = [name if len(name) <= pair - 2 else f"{name[: pair - 4]}.." for name in events]
    lines = ["".join(f"{name:>{pair}}" for name in cut)]
    lines.append((f"{'samples':>{_SAMPLES}}{'%':>{_PERCENT}}" * len(events)) + "  " + titles[0])
    names = [_names(row, profile.by, short) for row in shown]
    kept = shown[: profile.limit]
    left = max(_NARROWEST, *(len(name[0]) for name in names[: len(kept)])) if kept else 0
    left = min(left, max(_NARROWEST, _COLUMNS - pair * len(events) - 2))
    if len(titles) > 1:
        lines[-1] = lines[-1][: -len(titles[0])] + f"{titles[0]:<{left}}  {titles[1]}"
    for row, name in zip(kept, names, strict=False):
        cells = "".join(_pair(row.events.get(event, NO_SAMPLES), whole[event]) for event in events)
        lines.append(f"{cells}  {name[0]:<{left}}  {'  '.join(name[1:])}".rstrip())
    if len(kept) < len(shown):
        lines.append(f"({len(shown) - len(kept)} more; --limit {len(shown)} shows all)")
    return lines


def _names(row: ProfileRow, by: By, short: dict[str, str]) -> tuple[str, ...]:
    def named(name: str | None) -> str:
        return units.NOT_OBTAINED if name is None else short.get(name, name)

    if by == "mapping":
        return named(row.data), row.data_tlb or units.NOT_OBTAINED
    if by == "symbol":
        return named(row.object), row.symbol or units.NOT_OBTAINED
    return (named(row.object),)


def _pair(found: EventSamples, whole: EventSamples) -> str:
    # As profilers have always shown it: small shares must stay apart in a column.
    share = f"{100 * found.estimated / whole.estimated:.2f}" if whole.estimated else None
    return f"{found.samples:>{_SAMPLES},}{share or units.NOT_OBTAINED:>{_PERCENT}}"


class ProfileDocument(Part, frozen=True, kw_only=True):
    """Where sampled events of a program happened. null: not obtained."""

    format: Annotated[
        Literal["tlbcost profile 2"], doc("form of this document and its version")
    ] = "tlbcost profile 2"
    by: Annotated[By, doc("what the rows are: objects, symbols or mappings of data")]
    lost: Annotated[int, doc("records that did not fit into the buffer")]
    events: Annotated[dict[str, EventSamples], doc("all samples of each event")]
    rows: Annotated[list[ProfileRow], doc("the places with the most events of the first kind")]
    notes: Annotated[tuple[str, ...], doc("what makes the numbers less than exact")]


def to_json(profile: Profile) -> str:
    hits = profile.hits
    return document.to_json(
        ProfileDocument(
            by=profile.by,
            lost=hits.lost,
            events=totals(hits),
            rows=rows(hits.hits, profile.by)[: profile.limit],
            notes=(*doubts(hits), *profile.notes),
        )
    )
