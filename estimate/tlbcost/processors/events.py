# SPDX-License-Identifier: GPL-2.0-or-later
"""The event tables of data/events: which belongs to a CPU, its events and their formulas.

A formula is arithmetic over event names and numbers: `+ - * /`, parentheses, `min(a, b)` and
`max(a, b)` of two or more. Python parses it and never evaluates it.
"""

from __future__ import annotations

import ast
import difflib
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, cast, get_args

from tlbcost.common import formats, paths
from tlbcost.common.document import doc
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.formats import Table, count, read_table
from tlbcost.processors.published import Processors, processors
from tlbcost.system.machine import Machine

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<name>[a-z][a-z0-9_]*(?:\.[A-Za-z0-9_]+){0,2})"
    r"|(?P<sign>[-+*/(),]))"
)
_OPERATORS: dict[type[ast.operator], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}


@dataclass(frozen=True, slots=True)
class _Formula:
    """Its tree, in which numbers and names are references into `leaves`: `_0`, `_1`..."""

    tree: ast.expr
    leaves: dict[str, str | float]


def evaluate(expression: str, counts: Mapping[str, float]) -> float | None:
    """The value, or None if a name has no count or something is divided by zero.

    Raises ValueError if the expression is not a formula.
    """
    formula = _parse(expression)
    if not _names(formula) <= counts.keys():
        return None
    values = {
        key: float(counts[leaf]) if isinstance(leaf, str) else leaf
        for key, leaf in formula.leaves.items()
    }
    return _value(formula.tree, values)


def names(expression: str) -> set[str]:
    """The event names in the expression. Raises ValueError if it is not a formula."""
    return _names(_parse(expression))


def _names(formula: _Formula) -> set[str]:
    return {leaf for leaf in formula.leaves.values() if isinstance(leaf, str)}


@functools.cache
def _parse(expression: str) -> _Formula:
    words: list[str] = []
    leaves: dict[str, str | float] = {}
    at, text = 0, expression.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _refused(expression, f"'{text[at:].strip()}' is not expected")
        at = match.end()
        word = match[match.lastgroup or 0]
        if match.lastgroup != "sign" and word not in _FUNCTIONS:
            leaves[f"_{len(leaves)}"] = float(word) if match["number"] else word
            word = f"_{len(leaves) - 1}"
        words.append(word)
    try:
        formula = _Formula(ast.parse(" ".join(words), mode="eval").body, leaves)
        _value(formula.tree, dict.fromkeys(leaves, 1.0))
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise _refused(expression, str(error) or "it is too deep") from error
    except ValueError as error:
        raise _refused(expression, str(error)) from error
    return formula


def _value(node: ast.expr, values: Mapping[str, float]) -> float | None:
    """None: a division by zero. Raises ValueError for anything that is not part of a formula."""
    if isinstance(node, ast.Name) and node.id in values:
        return values[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        apply, parts = _OPERATORS[type(node.op)], [node.left, node.right]
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _FUNCTIONS
        and len(node.args) > 1
    ):
        apply, parts = _FUNCTIONS[node.func.id], node.args
    else:
        raise ValueError(f"{type(node).__name__} is not part of a formula")
    found = [_value(part, values) for part in parts]
    known = [value for value in found if value is not None]
    if len(known) < len(found) or (apply is operator.truediv and known[1] == 0):
        return None
    return apply(*known)


def _refused(expression: str, why: str) -> ValueError:
    return ValueError(f"not a formula: {expression}: {why}")


# doc/format.md, "events", says what each one means.
ROLES = (
    "cycles", "instructions",
    "dtlb_load_misses", "dtlb_store_misses", "dtlb_misses", "itlb_misses",
    "stlb_accesses", "stlb_hits", "stlb_misses", "walks_completed",
    "walk_active_cycles", "walk_pending_cycles",
    "walk_stall_cycles", "walk_stall_slots", "stlb_hit_active_cycles", "stlb_hit_stall_cycles",
    "walker_loads_l1", "walker_loads_l2", "walker_loads_l3", "walker_loads_memory",
    "walker_loads_beyond_l1", "walker_loads_beyond_l2", "walker_loads_beyond_l3",
    "ept_walk_active_cycles", "ept_walk_pending_cycles",
    "memory_bound_cycles", "l1d_miss_cycles", "l1i_miss_cycles", "stall_cycles",
    "tlb_flushes", "splintered_pages",
    "sample_load_misses", "sample_store_misses", "sample_fetch_misses", "sample_load_latency",
    "page_faults", "minor_faults", "major_faults", "task_clock_ns", "context_switches",
)  # fmt: skip
Access = Literal["load", "store", "data", "fetch", "any"]
ACCESSES = get_args(Access)
# How a string of libpfm4 or a code becomes a counter.
Encoding = Literal["libpfm4", "code"]
SIZES = {
    "4K": 4 << 10, "64K": 64 << 10, "1M": 1 << 20, "2M": 2 << 20, "16M": 16 << 20,
    "512M": 512 << 20, "1G": 1 << 30, "2G": 2 << 30, "16G": 16 << 30,
}  # fmt: skip
FORMULAS = (
    "share", "data_share", "code_share", "exposed_share", "ept_share",
    "walks", "data_walks", "code_walks", "hits", "data_hits", "walk_cycles",
    "tma_data_share", "tma_code_share", "pending_share",
)  # fmt: skip

# Of perf_event_attr; other types are names of event sources in /sys.
_TYPES = {"hardware": 0, "software": 1, "cache": 3, "raw": 4}
# The level that Intel's PEBS needs for the instruction itself.
_PRECISE = 2


@dataclass(frozen=True, slots=True)
class Event:
    """One row. `code` and `config1` are those of perf_event_attr, None: there is none.

    `string` is libpfm4's, None if no libpfm4 knows the event; `libpfm4` is the first version of
    it that encodes the string. `sources` are keys of Pmu.sources.
    """

    role: str
    access: Access | None
    page_size_bytes: int | None
    string: str | None
    type: str
    code: int | None
    config1: int | None
    libpfm4: str | None
    sources: tuple[str, ...]

    @property
    def name(self) -> str:
        """`role[.access[.size]]`."""
        return event_name(self.role, self.access, self.page_size_bytes)

    def spec(self) -> str:
        """The argument of tlbcost-count: the string, then the code in case libpfm4 is older."""
        alternatives = [] if self.string is None else [self.string]
        if self.code is not None:
            alternatives.append(self._code(str(_TYPES.get(self.type, self.type))))
            # A CPU with only one of a hybrid's kinds of core has no event source of this name.
            if self.type in ("cpu_core", "cpu_atom"):
                alternatives.append(self._code(str(_TYPES["raw"])))
        return "|".join(alternatives)

    def _code(self, source: str) -> str:
        words = ["code", source, f"{self.code:#x}"]
        precise = self._precise()
        if self.config1 is not None or precise:
            words.append(f"{self.config1 or 0:#x}")
        if precise:
            words.append(str(precise))
        return ":".join(words)

    def _precise(self) -> int:
        asked = re.search(r":precise=(\d)", self.string or "")
        if asked:
            return int(asked[1])
        raw_sample = self.string is None and self.role.startswith("sample_") and self.type == "raw"
        return _PRECISE if raw_sample else 0


@dataclass(frozen=True, slots=True)
class GenericEvent:
    """What one of the kernel's generic events counts on this CPU.

    `counts` is the quantity, spelt like an event's name; the table may have no such row.
    """

    counts: Annotated[str | None, doc("the event that it counts; null: it is refused")]
    event: Annotated[str, doc("the event that the kernel programs, in words")]


@dataclass(frozen=True, slots=True)
class Pmu:
    """The counters of one kind of CPU.

    `key` is the name of its file, `pmu` libpfm4's name (None: it has none). `counters` is the
    number of events besides those in `fixed` (roles) that one group can hold, None: not known.
    `formulas` and `generic` are keyed by the names in doc/format.md; `perf_metrics` has perf's own
    metrics that mean the same as a formula, or whose sum does.
    """

    key: str
    name: str
    pmu: str | None
    aliases: tuple[str, ...]
    architecture: str
    processors: Processors
    counters: int | None
    fixed: tuple[str, ...]
    walkers: int | None
    stlb_hit_cycles: int | None
    events: tuple[Event, ...]
    formulas: dict[str, str] = field(default_factory=dict)
    perf_metrics: dict[str, tuple[str, ...]] = field(default_factory=dict)
    generic: dict[str, GenericEvent] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    errata: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)


def event_name(role: str, access: str | None = None, page_size_bytes: int | None = None) -> str:
    """`role[.access[.size]]`, an event's name. The size needs an access."""
    words = [role] if access is None else [role, access]
    if page_size_bytes is not None:
        words.append(next(name for name, size in SIZES.items() if size == page_size_bytes))
    return ".".join(words)


def read_pmu(path: Path) -> Pmu:
    """Read one table. Raises TlbcostError naming the file and the defect."""
    table = read_table(path, formats.EVENTS)
    try:
        pmu = Pmu(
            key=path.stem,
            name=table.key("name"),
            pmu=table.known("pmu"),
            aliases=_list(table.key("aliases")),
            architecture=table.key("architecture"),
            processors=processors(table),
            counters=count(table.known("counters")),
            fixed=_list(table.key("fixed")),
            walkers=count(table.known("walkers")),
            stlb_hit_cycles=count(table.known("stlb_hit_cycles")),
            events=tuple(_event(row) for row in table.records()),
            formulas=_keys(table, "formula_"),
            perf_metrics={
                key: tuple(text.split()) for key, text in _keys(table, "perf_metric_").items()
            },
            generic={key: _generic(text) for key, text in _keys(table, "generic_").items()},
            notes=tuple(_keys(table, "note_").values()),
            errata=tuple(_keys(table, "erratum_").values()),
            sources=_keys(table, "source_"),
        )
        _check(pmu)
    except ValueError as error:
        raise TlbcostError(f"{path}: {error}") from error
    return pmu


def _event(row: dict[str, str | None]) -> Event:
    role, access, type_ = row["role"], row["access"], row["type"]
    size = count(row["page_size_bytes"])
    if role not in ROLES or access not in (None, *ACCESSES) or type_ is None:
        raise ValueError(f"not an event: {row}")
    if size is not None and (size not in SIZES.values() or access is None):
        raise ValueError(f"not a page size: {row}")
    if row["event"] is None and row["code"] is None:
        raise ValueError(f"neither a string nor a code: {row}")
    return Event(
        role=role,
        access=cast("Access | None", access),
        page_size_bytes=size,
        string=row["event"],
        type=type_,
        code=_hexadecimal(row["code"]),
        config1=_hexadecimal(row["config1"]),
        libpfm4=row["libpfm4"],
        sources=_list(row["source"] or "NA"),
    )


def _check(pmu: Pmu) -> None:
    """Check the consistency of a table's parts."""
    known = [event.name for event in pmu.events]
    for name in known:
        if known.count(name) > 1:
            raise ValueError(f"{name} is there twice")
    for event in pmu.events:
        for key in event.sources:
            if key not in pmu.sources:
                raise ValueError(f"{event.name}: no '# source_{key}:' line in the header")
    for key, formula in pmu.formulas.items():
        if key not in FORMULAS:
            raise ValueError(f"no formula is called {key}")
        missing = names(formula) - set(known)
        if missing:
            raise ValueError(f"formula_{key}: no row for {', '.join(sorted(missing))}")
    for key in pmu.perf_metrics:
        if key not in pmu.formulas:
            raise ValueError(f"perf_metric_{key}: there is no such formula")
    for role in pmu.fixed:
        if role not in known:
            raise ValueError(f"fixed: no row for {role}")


def _generic(text: str) -> GenericEvent:
    name, _, words = text.partition(" ")
    role, *rest = name.split(".")
    if name != "NA" and (role not in ROLES or len(rest) > 1 or not set(rest) <= set(ACCESSES)):
        raise ValueError(f"not what a generic event counts: {text}")
    return GenericEvent(None if name == "NA" else name, words)


def _keys(table: Table, prefix: str) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in table.header.items()
        if key.startswith(prefix)
    }


def _list(text: str) -> tuple[str, ...]:
    return () if text == "NA" else tuple(word.strip() for word in text.split(","))


def _hexadecimal(cell: str | None) -> int | None:
    if cell is None:
        return None
    if not re.fullmatch(r"0x[0-9a-f]{1,16}", cell):
        raise ValueError(f"not a hexadecimal number: {cell}")
    return int(cell, 16)


_GENERIC = "perf"


@functools.cache
def load_pmu(key: str) -> Pmu:
    """The table data/events/<key>.tsv. Raises TlbcostError naming the file and the defect."""
    return read_pmu(paths.data("events", f"{key}.tsv"))


def all_pmus() -> list[Pmu]:
    """All tables, by key."""
    return [load_pmu(path.stem) for path in sorted(paths.data("events").glob("*.tsv"))]


def generic_pmu() -> Pmu:
    """The kernel's generic and software events, for CPUs without a table."""
    return load_pmu(_GENERIC)


def pmu_of(machine: Machine) -> Pmu | None:
    """The table of this machine's CPU, or None.

    On a hybrid machine: that of the cores that get work first (Intel's P-cores).
    """
    return next((pmu for pmu in all_pmus() if pmu.processors.include(machine)), None)


def named(text: str) -> Pmu:
    """The table of this key, libpfm4 name or alias, whatever the case.

    Raises TlbcostError (usage) with similar names.
    """
    known: dict[str, Pmu] = {}
    for pmu in all_pmus():
        for name in (pmu.key, pmu.pmu, *pmu.aliases):
            if name is not None:
                known.setdefault(name.lower(), pmu)
    wanted = text.lower().replace(" ", "-").replace("_", "-")
    for name, pmu in known.items():
        if wanted == name.replace("_", "-"):
            return pmu
    near = difflib.get_close_matches(text.lower(), known, n=4, cutoff=0.5)
    near += [name for name in known if wanted in name and name not in near][:4]
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise TlbcostError(
        f"no event table is called '{text}'",
        f"{hint}'tlbcost events --list' lists them",
        USAGE,
    )


def select(pmu: Pmu, names: Sequence[str]) -> tuple[Event, ...]:
    """The events of these names, each once, in this order; the kernel's software events too.

    `walk_active_cycles` means every access of it, without those of one page size. Raises
    TlbcostError (usage) with the valid names.
    """
    software = tuple(event for event in generic_pmu().events if event.type == "software")
    known = pmu.events + tuple(e for e in software if e not in pmu.events)
    chosen: dict[str, Event] = {}
    for name in names:
        found = [
            event
            for event in known
            if name == event.name or (name == event.role and event.page_size_bytes is None)
        ]
        if not found:
            raise TlbcostError(
                f"no event of {pmu.name} is called '{name}'",
                "there are " + ", ".join(dict.fromkeys(event.name for event in known)),
                USAGE,
            )
        chosen |= {event.name: event for event in found}
    return tuple(chosen.values())
