# SPDX-License-Identifier: GPL-2.0-or-later
"""Are numbers of the command line only decimal digits within their limits?"""

from __future__ import annotations

import argparse

import pytest
from tlbcost.common.arguments import program_words, whole_number


def test_limits_belong_to_the_numbers() -> None:
    assert [whole_number(3, 5)(text) for text in ("3", "05")] == [3, 5]


@pytest.mark.parametrize("text", ["", "2", "6", "-3", "+3", "3.0", "\u0663", "0x3", " 3"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="not a number from 3 to 5: "):
        whole_number(3, 5)(text)


def test_dashes_before_the_program_are_not_its_own() -> None:
    assert program_words(["--", "./app", "--"]) == ("./app", "--")
    assert program_words(["./app"]) == ("./app",)
    assert program_words([]) == ()
