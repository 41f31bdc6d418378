# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.record import MACHINE, TWO, measured, modelled, record
from tlbcost.accuracy import record as trial_record
from tlbcost.accuracy.checks import Program, Record
from tlbcost.accuracy.record import format_record, read_record, record_of
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval


def test_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    some = record(
        *TWO.programs,
        measured("hash", 0.9, 0.6, Interval(0.3, 0.28, 0.32), -0.01),
        replace(TWO.programs[0], name="musl", excluded="no huge pages", pairs=()),
        Program("failed", "./failed", "thp", None, (), "no estimate: ./failed exited with 3"),
    )
    path = tmp_path / "trials.tsv"
    path.write_text(format_record(some), encoding="utf-8")
    assert read_record(path) == some


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("expected_value_0: 0.25", "expected_value_0: 0.9"),
        ("bound_fraction_0: 0.5", "bound_fraction_0: wide"),
        ("base_page_bytes: 4096", "base_page_bytes: NA"),
        ("# date:", "# day:"),
        ("\t1000000000\t900000000", "\t0\t900000000"),
        ("\t1000000000\t900000000", "\tNA\t900000000"),
    ],
)
def test_garbage_is_refused_by_name(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "trials.tsv"
    text = format_record(TWO)
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"trials\.tsv"):
        read_record(path)


def test_record_of_this_machine_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "samples" / "some").mkdir(parents=True)
    monkeypatch.setattr(trial_record, "data", lambda *parts: tmp_path.joinpath(*parts))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert record_of(MACHINE) is None
    (tmp_path / "samples" / "some" / "trials.tsv").write_text(format_record(TWO))
    assert record_of(replace(MACHINE, kernel="6.2", microcode="0x2")) == (TWO, False)
    assert record_of(replace(MACHINE, cpu_model="143")) is None
    assert record_of(replace(MACHINE, hypervisor=None)) is None
    # The user's own goes first; one of no use is passed over.
    own = tmp_path / "cache" / "tlbcost" / "trials.tsv"
    own.parent.mkdir(parents=True)
    own.write_text(format_record(record(TWO.programs[0])))
    found = record_of(MACHINE)
    assert found is not None
    assert (len(found[0].checks), found[1]) == (1, True)
    own.write_text("garbage")
    assert record_of(MACHINE) == (TWO, False)


def test_records_without_models_are_read(tmp_path: Path) -> None:
    text = format_record(TWO)
    old = "".join(
        line
        for line in text.splitlines(keepends=True)
        if not line.startswith(("# expected_overlap", "# expected_simple"))
    )
    assert old != text
    (tmp_path / "trials.tsv").write_text(old, encoding="utf-8")
    assert read_record(tmp_path / "trials.tsv") == TWO


def test_only_the_errors_of_the_same_model_are_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = tmp_path / "tlbcost" / "trials.tsv"
    own.parent.mkdir()

    def quoted(some: Record) -> dict[str, float]:
        own.write_text(format_record(some))
        return {
            model: round(tried.mean_error_fraction, 4)
            for model, tried in trial_record.track_records(MACHINE).items()
        }

    overlap = Interval(0.32, 0.29, 0.34)
    assert quoted(modelled(overlap)) == {"overlap": 0.02, "simple": 0.05}
    assert quoted(modelled(None)) == {"simple": 0.05}
    # From before there were two models.
    assert quoted(modelled(None, with_ways=False)) == {"simple": 0.05}
