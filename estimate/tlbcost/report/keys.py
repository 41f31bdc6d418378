# SPDX-License-Identifier: GPL-2.0-or-later
"""Which values of an estimate have names, such as total_fraction.low or verdict?

A name is a path of keys of the document, with points between; of an interval without one of its
ends it is the value.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.interval import Interval

# The names that most conditions need.
ALIASES = {
    "gain": "total_fraction",
    "misses": "expected_fraction",
    "faults": "fault_fraction",
    "bound": "bound_fraction",
    "verdict": "verdict.code",
    "time": "program.cpu_ns",
    "spread": "program.cpu_spread_fraction",
}
_NEAREST = 3


class UnknownKeyError(Exception):
    """The document has no such key: what is wrong, and the nearest names."""


def full_name(name: str) -> str:
    """The path that a name or an alias stands for."""
    if name in ALIASES:
        return ALIASES[name]
    first, _, rest = name.partition(".")
    if first in ALIASES and first not in _fields(EstimateDocument):
        return f"{ALIASES[first]}.{rest}"
    return name


def words_of(name: str) -> tuple[str, ...] | None:
    """The words that the value may be; empty: any; None: it is a number, or true or false.

    Raises UnknownKeyError, also where it is no single value.
    """
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
    """The value; None: it was not obtained."""
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
    """Without what is said of it, and without None."""
    while True:
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif get_origin(kind) in (Union, types.UnionType):
            [kind] = [each for each in get_args(kind) if each is not type(None)]
        else:
            return kind
