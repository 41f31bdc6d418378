# SPDX-License-Identifier: GPL-2.0-or-later
"""What is the value of a formula of data/events for these counts?

A formula is arithmetic over event names and numbers: `+ - * /`, parentheses, `min(a, b)` and
`max(a, b)` of two or more. Python parses it and never evaluates it.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
