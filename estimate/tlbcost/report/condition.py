# SPDX-License-Identifier: GPL-2.0-or-later
"""Does an estimate meet a condition such as 'gain>5% and verdict==worth_trying'? (--fail-if)

    condition   alternative { "or" alternative }
    alternative comparison { "and" comparison }
    comparison  "not" comparison | "(" condition ")" | key operator value
    operator    > >= < <= == !=
    value       a number, with one of the units % ns us ms s KiB MiB GiB; a word; true; false

Keys are those of the JSON, with points between, and the short names in keys.ALIASES. A value that
was not obtained decides nothing: the condition is then undecided, unless the rest decides it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.errors import CANNOT_MEASURE, CONDITION_HOLDS, USAGE, TlbcostError
from tlbcost.report.keys import UnknownKeyError, value_of, words_of

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*"
    r"(?:%|ns|us|µs|ms|s|KiB|MiB|GiB)?(?![\w.]))"
    r"|(?P<operator>>=|<=|==|!=|>|<)|(?P<bracket>[()])"
    r"|\"(?P<quoted>[^\"]*)\"|(?P<word>[A-Za-z_][\w.-]*))"
)
_NUMBER = re.compile(r"([-+.\deE]*\d\.?)\s*(\D*)")
_UNITS = {
    "": 1.0, "%": 0.01, "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9,
    "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3,
}  # fmt: skip
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_HINT = "--fail-if 'gain>5% and verdict!=not_proven'; tlbcost-show(1) has the grammar"

# True, False, or None where a value is needed that was not obtained.
Test = Callable[[EstimateDocument], bool | None]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition and its text."""

    text: str
    test: Test

    def meets(self, document: EstimateDocument) -> bool | None:
        """Whether the estimate meets it; None: values that decide it were not obtained."""
        return self.test(document)


def parse_condition(text: str) -> Condition:
    """Read a condition. Raises TlbcostError with exit code 2 that shows where it is wrong."""
    return Condition(text, _Parser(text).whole())


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    place: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split()
        self._next = 0

    def whole(self) -> Test:
        test = self._either()
        token = self._peek()
        if token.kind != "end":
            raise self._wrong(token, "'and' or 'or' is missing here")
        return test

    def _split(self) -> list[_Token]:
        tokens, place, text = [], 0, self._text.rstrip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                start = place + len(text[place:]) - len(text[place:].lstrip())
                why = "compare with ==" if text[start] == "=" else "this is not understood"
                raise self._wrong(_Token("", text[start], start), why)
            kind = found.lastgroup or ""
            tokens.append(_Token(kind, found[kind], found.start(kind)))
            place = found.end()
        return [*tokens, _Token("end", "", len(text))]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _is(self, word: str) -> bool:
        return self._peek().kind in ("word", "bracket") and self._peek().text == word

    def _either(self) -> Test:
        tests = [self._both()]
        while self._is("or"):
            self._take()
            tests.append(self._both())
        return lambda document: _any([test(document) for test in tests])

    def _both(self) -> Test:
        tests = [self._one()]
        while self._is("and"):
            self._take()
            tests.append(self._one())
        return lambda document: _not(_any([_not(test(document)) for test in tests]))

    def _one(self) -> Test:
        if self._is("not"):
            self._take()
            test = self._one()
            return lambda document: _not(test(document))
        if self._is("("):
            self._take()
            inner = self._either()
            if not self._is(")"):
                raise self._wrong(self._peek(), "')' is missing here")
            self._take()
            return inner
        return self._comparison()

    def _comparison(self) -> Test:
        key = self._take()
        if key.kind != "word":
            raise self._wrong(key, "a key is missing here")
        try:
            words = words_of(key.text)
        except UnknownKeyError as error:
            raise self._wrong(key, str(error)) from None
        sign = self._take()
        if sign.kind != "operator":
            raise self._wrong(sign, f"one of {' '.join(_OPERATORS)} is missing here")
        wanted = self._value(words, sign)
        compare, name = _OPERATORS[sign.text], key.text

        def test(document: EstimateDocument) -> bool | None:
            found = value_of(document, name)
            return None if found is None else bool(compare(found, wanted))

        return test

    def _value(self, words: tuple[str, ...] | None, sign: _Token) -> float | str:
        token = self._take()
        if words is None:
            if token.kind == "number":
                return _number(token.text)
            if token.text in ("true", "false"):
                return token.text == "true"
            raise self._wrong(token, "a number is missing here")
        if token.kind not in ("word", "quoted"):
            raise self._wrong(token, "a word is missing here")
        if sign.text not in ("==", "!="):
            raise self._wrong(sign, "words are compared with == or !=")
        if words and token.text not in words:
            raise self._wrong(token, f"it is one of {', '.join(words)}")
        return token.text

    def _wrong(self, token: _Token, why: str) -> TlbcostError:
        return TlbcostError(f"--fail-if: {why}", _HINT, USAGE, (self._text, token.place))


def exit_code(condition: Condition | None, document: EstimateDocument) -> int:
    """3 if the condition holds, else 0. Raises TlbcostError with exit code 4: undecided."""
    if condition is None:
        return 0
    meets = condition.meets(document)
    if meets is None:
        raise TlbcostError(
            f"--fail-if '{condition.text}' cannot be decided: a value was not obtained (NA)",
            "--json has all values: null is not obtained",
            CANNOT_MEASURE,
        )
    return CONDITION_HOLDS if meets else 0


def _number(text: str) -> float:
    found = _NUMBER.fullmatch(text.strip())
    assert found is not None
    return float(found[1]) * _UNITS[found[2]]


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _any(values: list[bool | None]) -> bool | None:
    if True in values:
        return True
    return None if None in values else False
