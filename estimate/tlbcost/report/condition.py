# SPDX-License-Identifier: GPL-2.0-or-later
"""--fail-if: comparisons of an estimate's values, such as gain>5% or verdict==worth_trying.

A comparison is KEY OPERATOR VALUE. Keys are those of the JSON, with points between, and the short
names in ALIASES; of an interval without one of its ends the key is the value. A value is a number,
with one of the units % ns us ms s KiB MiB GiB, or a word. The option may be repeated: one
comparison that holds is enough.
"""

from __future__ import annotations

import difflib
import operator
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.errors import CANNOT_MEASURE, CONDITION_HOLDS, USAGE, TlbcostError
from tlbcost.common.units import Interval

_COMPARISON = re.compile(r"\s*([\w.-]+)\s*(>=|<=|==|!=|>|<)\s*(.+?)\s*")
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\D*)", re.ASCII)
_UNITS = {
    "": 1.0, "%": 0.01, "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9,
    "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3,
}  # fmt: skip
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
# The names that most conditions need.
ALIASES = {
    "gain": "total_fraction",
    "service": "measured.user_fraction",
    "misses": "expected_fraction",
    "faults": "fault_fraction",
    "bound": "bound_fraction",
    "verdict": "verdict.code",
    "stall_p999_ns": "stalls.huge.p999_ns",
    "time": "program.cpu_ns",
    "spread": "program.cpu_spread_fraction",
}
_NEAREST = 3


@dataclass(frozen=True, slots=True)
class Comparison:
    """One --fail-if, as typed and as read."""

    text: str
    key: str
    sign: str
    wanted: float | str

    def holds(self, document: EstimateDocument) -> bool | None:
        """None if the value was not obtained."""
        found = value_of(document, self.key)
        return None if found is None else bool(_OPERATORS[self.sign](found, self.wanted))


def parse_comparison(text: str) -> Comparison:
    """Raises TlbcostError with exit code 2 that says what is wrong."""
    parts = _COMPARISON.fullmatch(text)
    if parts is None:
        raise _wrong(text, f"not a key, one of {' '.join(_OPERATORS)} and a value")
    key, sign, value = parts.groups()
    try:
        words = words_of(key)
    except UnknownKeyError as error:
        raise _wrong(text, str(error)) from None
    if words is None:
        return Comparison(text, key, sign, _number(text, value))
    if sign not in ("==", "!="):
        raise _wrong(text, "words are compared with == or !=")
    word = value.strip('"')
    if words and word not in words:
        raise _wrong(text, f"{key} is one of {', '.join(words)}")
    return Comparison(text, key, sign, word)


def exit_code(comparisons: Sequence[Comparison], document: EstimateDocument) -> int:
    """3 if one holds, else 0. Raises TlbcostError with exit code 4 if that is undecided."""
    results = [comparison.holds(document) for comparison in comparisons]
    if True in results:
        return CONDITION_HOLDS
    if None in results:
        raise TlbcostError(
            f"--fail-if '{comparisons[results.index(None)].text}' cannot be decided: a value was "
            "not obtained (NA)",
            "--json has all values: null is not obtained",
            CANNOT_MEASURE,
        )
    return 0


def _number(text: str, value: str) -> float:
    if value in ("true", "false"):
        return value == "true"
    parts = _NUMBER.fullmatch(value)
    if parts is None or parts[2] not in _UNITS:
        raise _wrong(text, f"not a number, or a unit that is not known: {value}")
    return float(parts[1]) * _UNITS[parts[2]]


def _wrong(text: str, why: str) -> TlbcostError:
    hint = "--fail-if 'gain>5%', or --fail-if verdict==worth_trying; tlbcost-show(1) has the keys"
    return TlbcostError(f"--fail-if '{text}': {why}", hint, USAGE)


class UnknownKeyError(Exception):
    """The document has no such key: what is wrong, and the nearest names."""


def full_name(name: str) -> str:
    if name in ALIASES:
        return ALIASES[name]
    first, _, rest = name.partition(".")
    if first in ALIASES and first not in _fields(EstimateDocument):
        return f"{ALIASES[first]}.{rest}"
    return name


def words_of(name: str) -> tuple[str, ...] | None:
    """Words that the value may be, empty for any, None for a number. Raises UnknownKeyError."""
    kind: object = EstimateDocument
    path = full_name(name).split(".")
    for i, key in enumerate(path):
        kind = _member(kind, key, ".".join(path[:i]))
    kind = _bare(kind)
    if kind is Interval or kind in (int, float, bool):
        return None
    if get_origin(kind) is Literal:
        return tuple(map(str, get_args(kind)))
    if kind is str:
        return ()
    inner = ", ".join(list(_fields(kind))[:_NEAREST])
    raise UnknownKeyError(f"{name} is no single value{f': it has {inner}, ...' if inner else ''}")


def value_of(document: EstimateDocument, name: str) -> float | str | bool | None:
    found: Any = document
    for key in full_name(name).split("."):
        if isinstance(found, Mapping):
            found = found.get(key)
        elif isinstance(found, Sequence):
            found = found[int(key)] if int(key) < len(found) else None
        elif found is not None:
            found = getattr(found, key)
    return found.value if isinstance(found, Interval) else found


def _member(kind: object, key: str, before: str) -> object:
    kind = _bare(kind)
    origin = get_origin(kind)
    if origin is dict:
        value: object = get_args(kind)[1]
        return value
    if origin in (list, tuple):
        if key.isdigit():
            element: object = get_args(kind)[0]
            return element
        raise UnknownKeyError(f"{before} is a list: {before}.0 is its first element")
    fields = _fields(kind)
    if key in fields:
        return fields[key]
    known = [*fields, *(() if before else ALIASES)]
    nearest = difflib.get_close_matches(key, known, _NEAREST, 0.5)
    hint = f"; the nearest are {', '.join(nearest)}" if nearest else ""
    raise UnknownKeyError(f"there is no key {f'{before}.' if before else ''}{key}{hint}")


def _fields(kind: object) -> Mapping[str, object]:
    return get_type_hints(kind, include_extras=True) if isinstance(kind, type) else {}


def _bare(kind: object) -> object:
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif get_origin(kind) in (Union, types.UnionType):
            [kind] = [each for each in get_args(kind) if each is not type(None)]
        else:
            return kind
