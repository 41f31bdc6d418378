# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

from pathlib import Path

from builders.answer import estimated
from builders.trial import METHOD, MIB, made_trials, pair
from tlbcost.accuracy.record import read_record
from tlbcost.trial.comparison import judge
from tlbcost.trial.record import to_table


def test_the_table_is_a_record(tmp_path: Path) -> None:
    report = made_trials(
        judge(METHOD, (pair(0.8),) * 3 + (pair(0.8, 0.0),)),
        judge(METHOD, (pair(0.8, 0.0),) * 3),
        estimate=estimated().gain,
    )
    file = tmp_path / "trials.tsv"
    file.write_text(to_table(report), encoding="utf-8")
    record = read_record(file)
    assert [len(program.pairs) for program in record.programs] == [3, 0]
    assert record.programs[0].command == "./app 'an arg'"
    assert record.programs[0].pairs[0].huge_bytes == 256 * MIB
    assert record.programs[1].excluded is not None
