# SPDX-License-Identifier: GPL-2.0-or-later
"""Which commands are given to type?"""

from __future__ import annotations

from builders.answer import estimated
from builders.counted import SKL, counted, imported
from builders.report import advised
from tlbcost.answer.advice import next_steps

COMMAND = "./app 'an argument'"


def test_nothing_is_to_be_done_where_nothing_is_to_gain() -> None:
    assert next_steps(estimated(0)) == ["# Nothing to configure for this program."]


def test_the_first_remedy_of_each_region_and_its_proof() -> None:
    made = advised(("./app", "an argument"))
    steps = next_steps(made)
    first = made.advice[0].remedies[0]
    assert steps[:2] == [f"# {first.words}:", f"GLIBC_TUNABLES=glibc.malloc.hugetlb=1 {COMMAND}"]
    assert first.proof in steps
    assert first.proof.endswith(f"-- {COMMAND}")


def test_without_advice_a_trial_is_the_next_step() -> None:
    assert next_steps(estimated()) == ["# to prove it:", f"tlbcost trial -- {COMMAND}"]
    elsewhere = imported(counted(SKL))
    assert next_steps(elsewhere)[0] == "# to prove it, where the program runs:"
