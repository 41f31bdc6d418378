# SPDX-License-Identifier: GPL-2.0-or-later
"""What is the value of a formula of data/events for these counts?

A formula is arithmetic over event names and numbers: `+ - * /`, parentheses, `min(a, b)` and
`max(a, b)` of two or more. It is parsed here and never given to Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?)"
    r"|(?P<name>[a-z][a-z0-9_]*(?:\.[A-Za-z0-9_]+){0,2})"
    r"|(?P<sign>[-+*/(),]))"
)
_CHOICES: dict[str, Callable[[list[float]], float]] = {"min": min, "max": max}
# Formulas are short; this keeps a hostile one from exhausting the stack.
_DEPTH = 50


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


class _Parser:
    """Recursive descent over one expression; values are computed while parsing.

    `defined` is False once something was divided by zero.
    """

    def __init__(self, expression: str, value_of: Callable[[str], float]) -> None:
        self._expression = expression
        self._value_of = value_of
        self._tokens = _tokens(expression)
        self._next = 0
        self._depth = 0
        self.defined = True

    def value(self) -> float:
        value = self._sum()
        if self._next < len(self._tokens):
            raise self._error(f"'{self._tokens[self._next].text}' is not expected")
        return value

    def _sum(self) -> float:
        value = self._product()
        while sign := self._take("+", "-"):
            right = self._product()
            value = value + right if sign == "+" else value - right
        return value

    def _product(self) -> float:
        value = self._factor()
        while sign := self._take("*", "/"):
            right = self._factor()
            if sign == "*":
                value *= right
            elif right:
                value /= right
            else:
                self.defined = False
        return value

    def _factor(self) -> float:
        if self._next >= len(self._tokens):
            raise self._error("it ends too early")
        token = self._tokens[self._next]
        self._next += 1
        if token.kind == "number":
            return float(token.text)
        if token.kind == "name":
            choose = _CHOICES.get(token.text)
            return self._value_of(token.text) if choose is None else choose(self._arguments(2))
        if token.text == "(":
            self._next -= 1
            return self._arguments(1)[0]
        raise self._error(f"'{token.text}' is not expected")

    def _arguments(self, least: int) -> list[float]:
        """What stands in parentheses: one value, or at least two."""
        self._depth += 1
        if self._depth > _DEPTH or not self._take("("):
            raise self._error("'(' is missing" if self._depth <= _DEPTH else "it is too deep")
        values = [self._sum()]
        while least > 1 and self._take(","):
            values.append(self._sum())
        if not self._take(")") or len(values) < least:
            raise self._error("')' or an argument is missing")
        self._depth -= 1
        return values

    def _take(self, *signs: str) -> str | None:
        if self._next < len(self._tokens):
            token = self._tokens[self._next]
            if token.kind == "sign" and token.text in signs:
                self._next += 1
                return token.text
        return None

    def _error(self, why: str) -> ValueError:
        return ValueError(f"not a formula: {self._expression}: {why}")


def evaluate(expression: str, counts: Mapping[str, float]) -> float | None:
    """The value, or None if a name has no count or something is divided by zero.

    Raises ValueError if the expression is not a formula.
    """
    if not names(expression) <= counts.keys():
        return None
    parser = _Parser(expression, lambda name: float(counts[name]))
    value = parser.value()
    return value if parser.defined else None


def names(expression: str) -> set[str]:
    """The event names in the expression. Raises ValueError if it is not a formula."""
    found: set[str] = set()

    def note(name: str) -> float:
        found.add(name)
        return 1.0

    _Parser(expression, note).value()
    return found


def _tokens(expression: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    text = expression.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"not a formula: {expression}: '{text[at:].strip()}' is not expected")
        at = match.end()
        kind = match.lastgroup
        assert kind is not None
        tokens.append(_Token(kind, match[kind]))
    return tokens
