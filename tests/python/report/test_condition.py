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
from tlbcost.report.condition import ALIASES, exit_code, parse_comparison, value_of, words_of

WORTH = estimate_document(estimated())
# Without what fewer page faults save.
BARE = estimate_document(bare())


def gains(value: float) -> EstimateDocument:
    """Cheaper TLB misses save this much, and page faults nothing."""
    made = estimated()
    gain = replace(
        made.gain, expected_fraction=Interval(value, value, value), fault_fraction=Interval(0, 0, 0)
    )
    return estimate_document(altered(made, gain=gain))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("gain>5%", True),
        ("gain > 0.05", True),
        ("gain>5.1e1 %", False),
        ("gain>=100%", False),
        ("total_fraction.value>5%", True),
        ("verdict==worth_trying", True),
        ('verdict=="worth_trying"', True),
        ("verdict!=worth_trying", False),
        ("verdict.code==not_proven", False),
        ("program.wall_ns>999ms", True),
        ("program.wall_ns<=1s", True),
        ("program.runs.0.max_rss_bytes==300MiB", True),
        ("costs.0.walk_serial_ns>=35ns", True),
        ("bound_capped==false", True),
        ("simulation.model==simple", True),
        ('program.argv.1=="an argument"', True),
        ("machine.cpu_name!=x", True),
    ],
)
def test_comparisons(text: str, holds: bool) -> None:
    comparison = parse_comparison(text)
    assert comparison.holds(WORTH) is holds
    assert exit_code([comparison], WORTH) == (3 if holds else 0)


@pytest.mark.parametrize(
    ("texts", "code"),
    [
        ([], 0),
        (["gain>5%", "verdict==not_proven"], 3),
        (["gain>99%", "verdict==not_proven"], 0),
        # A value that was not obtained decides nothing.
        (["faults>1%"], 4),
        (["counters.translation_fraction>1%"], 4),
        (["costs.7.walk_serial_ns>1"], 4),
        (["faults>1%", "gain>-100%"], 3),
        (["gain>100%", "faults>1%"], 4),
    ],
)
def test_one_that_holds_is_enough(texts: list[str], code: int) -> None:
    document = BARE if "faults>1%" in texts or code == 4 else WORTH
    comparisons = [parse_comparison(text) for text in texts]
    if code != 4:
        assert exit_code(comparisons, document) == code
        return
    with pytest.raises(TlbcostError, match="cannot be decided") as error:
        exit_code(comparisons, document)
    assert error.value.exit_code == 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a key, one of > >= < <= == != and a value"),
        ("gain", "not a key"),
        ("gain>", "not a key"),
        ("gain>x", "not a number"),
        ("gain.low<gain", "not a number"),
        ("gain>5% and gain>3%", "not a number"),
        ("gain=5%", "not a key"),
        ("gain>5gb", "not a number, or a unit that is not known: 5gb"),
        ("gain#5", "not a key"),
        ("gainn>5%", "no key gainn; the nearest are gain"),
        ("simulation.mode==x", "no key simulation.mode; the nearest are model"),
        ("machine>1", "no single value: it has cpu_vendor"),
        ("caveats.code==T01", "is a list: caveats.0"),
        ("verdict>not_proven", "with == or !="),
        ("verdict==worthy", "one of worth_trying, not_worth_it, not_proven, already_huge"),
    ],
)
def test_a_wrong_comparison_is_refused(text: str, why: str) -> None:
    with pytest.raises(TlbcostError) as error:
        parse_comparison(text)
    assert error.value.exit_code == 2
    assert f"--fail-if '{text}'" in str(error.value)
    assert why in str(error.value)


def test_short_names_are_keys_of_the_document() -> None:
    for name, key in ALIASES.items():
        assert words_of(name) == words_of(key)
        assert value_of(WORTH, name) == value_of(WORTH, key)


def test_keys_of_counters_and_formulas() -> None:
    document = estimate_document(both())
    assert parse_comparison("counters.formulas.share.value>1%").holds(document) is True
    assert parse_comparison("counters.way==walk_cycles").holds(document) is True


@given(st.floats(-1, 1), st.floats(-100, 100))
def test_numbers_are_compared_as_they_are(gain: float, percent: float) -> None:
    document = gains(gain)
    found = value_of(document, "misses")
    assert found == gain
    for sign, expected in (
        (">", gain > percent * 0.01), ("<=", gain <= percent * 0.01),
    ):  # fmt: skip
        assert parse_comparison(f"misses{sign}{percent!r}%").holds(document) is expected


@given(st.text(alphabet="gain()<>=!andort5%. \"'_-#0", max_size=20))
def test_no_text_breaks_the_parser(text: str) -> None:
    refused = None
    try:
        parse_comparison(text).holds(WORTH)
    except TlbcostError as error:
        refused = error.exit_code
    assert refused in (None, 2)
