# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a condition of --fail-if read as documented, and does what is unknown decide nothing?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.answer import altered, estimated
from builders.counted import both
from builders.report import bare
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.answer.document import estimate_document
from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.report.condition import exit_code, parse_condition
from tlbcost.report.keys import ALIASES, value_of, words_of

WORTH = estimate_document(estimated())
# Without what fewer page faults save.
BARE = estimate_document(bare())


def gains(value: float) -> EstimateDocument:
    """Cheaper TLB misses save this much, and page faults nothing."""
    made = estimated()
    gain = replace(
        made.gain,
        expected_fraction=Interval(value, value, value),
        fault_fraction=Interval(0, 0, 0),
    )
    return estimate_document(altered(made, gain=gain))


@pytest.mark.parametrize(
    ("text", "meets"),
    [
        ("gain>5%", True),
        ("gain > 0.05", True),
        ("gain>5.1e1 %", False),
        ("gain>=100%", False),
        ("gain.low<gain", None),
        ("total_fraction.value>5%", True),
        ("verdict==worth_trying", True),
        ('verdict=="worth_trying"', True),
        ("verdict!=worth_trying", False),
        ("verdict.code==not_proven", False),
        ("gain>5% and verdict==not_proven", False),
        ("gain>5% or verdict==not_proven", True),
        ("not gain>5%", False),
        ("not (gain<5% or verdict==not_proven)", True),
        # 'and' binds more tightly than 'or'.
        ("gain>5% or gain>5% and gain>99%", True),
        ("(gain>5% or gain>5%) and gain>99%", False),
        ("program.wall_ns>999ms and program.wall_ns<=1s", True),
        ("program.runs.0.max_rss_bytes==300MiB", True),
        ("costs.0.walk_serial_ns>=35ns", True),
        ("bound_capped==false", True),
        ("simulation.model==simple", True),
        ('program.argv.1=="an argument"', True),
        ("machine.cpu_name!=x", True),
    ],
)
def test_conditions(text: str, meets: bool | None) -> None:
    if meets is None:
        with pytest.raises(TlbcostError, match="a number is missing"):
            parse_condition(text)
        return
    assert parse_condition(text).meets(WORTH) is meets
    assert exit_code(parse_condition(text), WORTH) == (3 if meets else 0)


@pytest.mark.parametrize(
    ("text", "meets"),
    [
        ("faults>1%", None),
        ("not faults>1%", None),
        ("faults>1% or gain>-100%", True),
        ("faults>1% and gain>-100%", None),
        ("faults>1% and gain>100%", False),
        ("faults>1% or gain>100%", None),
        ("counters.translation_fraction>1%", None),
        ("costs.7.walk_serial_ns>1", None),
    ],
)
def test_what_was_not_obtained_decides_nothing(text: str, meets: bool | None) -> None:
    assert parse_condition(text).meets(BARE) is meets
    if meets is None:
        with pytest.raises(TlbcostError, match="cannot be decided") as error:
            exit_code(parse_condition(text), BARE)
        assert error.value.exit_code == 4


@pytest.mark.parametrize(
    ("text", "place", "why"),
    [
        ("", 0, "a key is missing"),
        ("gain", 4, "> >= < <= == != is missing"),
        ("gain>", 5, "a number is missing"),
        ("gain>x", 5, "a number is missing"),
        ("gain>5% gain>3%", 8, "'and' or 'or' is missing"),
        ("gain>5% and", 11, "a key is missing"),
        ("(gain>5%", 8, "')' is missing"),
        ("gain>5%)", 7, "'and' or 'or' is missing"),
        ("gain=5%", 4, "compare with =="),
        ("gain>5gb", 5, "not understood"),
        ("gain#5", 4, "not understood"),
        ("gainn>5%", 0, "no key gainn; the nearest are gain"),
        ("simulation.mode==x", 0, "no key simulation.mode; the nearest are model"),
        ("machine>1", 0, "no single value: it has cpu_vendor"),
        ("caveats.code==T01", 0, "is a list: caveats.0"),
        ("verdict>not_proven", 7, "with == or !="),
        ("verdict==worthy", 9, "one of worth_trying, not_worth_it, not_proven, already_huge"),
        ("verdict==5", 9, "a word is missing"),
    ],
)
def test_a_wrong_condition_is_shown_where_it_is_wrong(text: str, place: int, why: str) -> None:
    with pytest.raises(TlbcostError) as error:
        parse_condition(text)
    assert error.value.exit_code == 2
    assert why in str(error.value)
    assert error.value.marked == (text, place)


def test_short_names_are_keys_of_the_document() -> None:
    for name, key in ALIASES.items():
        assert words_of(name) == words_of(key)
        assert value_of(WORTH, name) == value_of(WORTH, key)


def test_keys_of_counters_and_formulas() -> None:
    document = estimate_document(both())
    assert parse_condition("counters.formulas.share.value>1%").meets(document) is True
    assert parse_condition("counters.way==walk_cycles").meets(document) is True


@given(st.floats(-1, 1), st.floats(-100, 100))
def test_numbers_are_compared_as_they_are(gain: float, percent: float) -> None:
    document = gains(gain)
    found = value_of(document, "misses")
    assert found == gain
    for sign, expected in (
        (">", gain > percent * 0.01), ("<=", gain <= percent * 0.01),
    ):  # fmt: skip
        assert parse_condition(f"misses{sign}{percent!r}%").meets(document) is expected


@given(st.text(alphabet="gain()<>=!andort5%. \"'_-#0", max_size=20))
def test_no_text_breaks_the_parser(text: str) -> None:
    refused = None
    try:
        parse_condition(text).meets(WORTH)
    except TlbcostError as error:
        refused = error.exit_code
    assert refused in (None, 2)
