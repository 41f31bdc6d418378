# SPDX-License-Identifier: GPL-2.0-or-later
"""What did a region cost, and what is said where the program did not reach it?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tlbcost.common.errors import TlbcostError
from tlbcost.run.outcome import Outcome, Run
from tlbcost.run.region import Region, names_of, region_words, trial_command

WHOLE = Outcome(Run(9000, 800, 70, 60, 5, 4096, 3), "", None, 0, None, None)
REGION = Region("reads:done", ("16:/p",), ("32:/p", "48:/q"))


def table(folder: Path, row: str) -> Path:
    path = folder / "region.tsv"
    columns = "begins ends wall_ns user_ns system_ns minor_faults major_faults"
    lines = ["# tlbcost region 1", *("\t".join(each.split()) for each in (columns, row))]
    path.write_text("\n".join([*lines, "# end: 1", ""]), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("reads:done", ("reads", "done")),
        ("reads", ("reads", "")),
        ("reads:", ("reads", "")),
        ("ns::Table::find(int):ns::end", ("ns::Table::find(int)", "ns::end")),
        ("@a@/lib/x.so:@b", ("@a@/lib/x.so", "@b")),
    ],
)
def test_a_region_has_a_start_and_perhaps_an_end(text: str, names: tuple[str, str]) -> None:
    assert names_of(text) == names


@pytest.mark.parametrize("text", ["", ":", ":done", "a:b:c"])
def test_other_texts_are_no_region(text: str) -> None:
    with pytest.raises(TlbcostError, match="not a region") as raised:
        names_of(text)
    assert raised.value.exit_code == 2


def test_it_is_named_in_words_and_in_commands() -> None:
    assert region_words("reads:done") == "from reads to done"
    assert region_words("reads:") == "from reads on"
    assert trial_command(None) == "tlbcost trial"
    assert trial_command("f(int):@x") == "tlbcost trial --region 'f(int):@x'"
    assert REGION.options("-s", "-e") == ["-s=16:/p", "-e=32:/p", "-e=48:/q"]


def test_times_and_faults_are_the_regions_and_memory_is_the_runs(tmp_path: Path) -> None:
    found = REGION.outcome(WHOLE, table(tmp_path, "2 2 100 90 8 7 1"))
    assert found.run == Run(100, 90, 8, 7, 1, 4096, None)
    assert found.exit_code == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0 0 NA NA NA NA NA", "never began: the program did not reach reads"),
        ("3 2 100 90 8 7 1", "never ended: after reads the program did not reach done"),
        ("1001 1000 NA NA NA NA NA", "more than 1,000 times"),
        ("1 1 NA NA NA NA NA", "the program was killed in it"),
    ],
)
def test_a_region_that_was_not_timed_is_refused(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(TlbcostError, match=message) as raised:
        REGION.outcome(WHOLE, table(tmp_path, row))
    assert raised.value.exit_code == 4
    assert raised.value.hint
