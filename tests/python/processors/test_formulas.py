# SPDX-License-Identifier: GPL-2.0-or-later
"""Are formulas computed as they are written, and is everything else refused?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.processors.formulas import evaluate, names


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7", 7),
        ("2 + 3 * 4", 14),
        ("(2 + 3) * 4", 20),
        ("10 - 4 - 3", 3),
        ("24 / 4 / 2", 3),
        ("1.5 * a", 15),
        ("min(a, b.load, 5)", 3),
        ("max(a - b.load.2M, 0)", 0),
        ("min(min(a, 4), max(b.load, 1)) / 2", 1.5),
    ],
)
def test_arithmetic(expression: str, value: float) -> None:
    assert evaluate(expression, {"a": 10, "b.load": 3, "b.load.2M": 30}) == value


def test_names() -> None:
    found = names("min(9 * stlb_hits.load + walks_completed.load.2M, cycles) / cycles")
    assert found == {"stlb_hits.load", "walks_completed.load.2M", "cycles"}


def test_what_was_not_counted_is_not_taken_as_0() -> None:
    assert evaluate("min(a, b)", {"a": 1.0}) is None
    assert evaluate("max(a * 0, 1)", {}) is None


def test_a_division_by_zero_is_no_value() -> None:
    assert evaluate("a / cycles", {"a": 1.0, "cycles": 0.0}) is None
    assert evaluate("min(a / cycles, 1)", {"a": 1.0, "cycles": 0.0}) is None


@pytest.mark.parametrize(
    "expression",
    [
        "", "1 +", "(1", "1)", "1 2", "a b", "min(1)", "min 1, 2", "max(1, 2", "(1, 2)", "-1",
        "1 ** 2", "a.b.c.d", "__import__('os')", "a; b", "min", "1e5", "a[0]", "A", "1 + é",
        "(" * 2000 + "1" + ")" * 2000,
    ],
)  # fmt: skip
def test_no_formula(expression: str) -> None:
    with pytest.raises(ValueError, match="not a formula"):
        names(expression)
    with pytest.raises(ValueError, match="not a formula"):
        evaluate(expression, {"a": 1.0, "b": 2.0})


@given(st.text(alphabet="ab.19+-*/(), minax", max_size=40))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        found = names(text)
    except ValueError:
        return
    value = evaluate(text, dict.fromkeys(found, 2.0))
    assert value is None or isinstance(value, float)
