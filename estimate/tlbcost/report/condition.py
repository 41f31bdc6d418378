# SPDX-License-Identifier: GPL-2.0-or-later
"""--fail-if: comparisons of an estimate's values, such as gain>5% or verdict==worth_trying.

A comparison is KEY OPERATOR VALUE. Keys are those of the JSON, with points between, and the short
names in keys.ALIASES; a value is a number, with one of the units % ns us ms s KiB MiB GiB, or a
word. The option may be repeated: one comparison that holds is enough.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.errors import CANNOT_MEASURE, CONDITION_HOLDS, USAGE, TlbcostError
from tlbcost.report.keys import UnknownKeyError, value_of, words_of

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
