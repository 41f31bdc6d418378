# SPDX-License-Identifier: GPL-2.0-or-later
"""Are files read whatever holds the rows, and is each wrong one named with what is wrong?"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.fleet import Row, frame_of, log_of, reviewed, rows_of, written
from tlbcost.common.errors import FAILED, USAGE, TlbcostError
from tlbcost.fleet import sources
from tlbcost.fleet.review import review_counts
from tlbcost.fleet.sources import matching

HEADER = "host,service,cpu_model,event,value,seconds\n"
GOOD = "a,web,skx,cycles:u,2e9,1\n"


def refusal(path: Path) -> TlbcostError:
    with pytest.raises(TlbcostError) as caught:
        review_counts(matching([str(path)]), None)
    return caught.value


def test_the_kinds_of_files_say_the_same(tmp_path: Path) -> None:
    rows = rows_of("a", seconds=5)
    expected = reviewed(tmp_path, rows).hosts
    assert expected
    log = tmp_path / "perf.log"
    origin = '{"host": "a", "service": "web", "cpu_model": "skx", '
    lines = log_of(rows).replace("{", origin)
    log.write_text(f"# started on Wed Nov 25 2026\n\n{lines}", encoding="utf-8")
    for path in (written(tmp_path, rows, "stats.csv"), log):
        (found,) = review_counts(matching([str(path)]), None).hosts
        assert found.gain.value == pytest.approx(expected[0].gain.value, rel=1e-12)
        assert (found.host, found.seconds, found.rows) == ("a", 5.0, len(rows))


def test_perfs_words_for_what_was_not_counted(tmp_path: Path) -> None:
    path = written(tmp_path, rows_of("a"), "stats.csv")
    more = "a,web,skx,cycles:u,<not counted>,1,1\na,web,skx,cycles:u,NA,1,1\n"
    text = path.read_text(encoding="utf-8")
    assert text.startswith(HEADER)
    path.write_text(text + more.replace(",1,1\n", ",1\n"), encoding="utf-8")
    (left,) = review_counts(matching([str(path)]), None).document.left_out
    assert (left.reason, left.rows, left.hosts) == ("not_counted", 2, 1)


def test_a_large_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [row for i in range(10) for row in rows_of(f"h{i}")]
    whole = reviewed(tmp_path, rows).hosts
    path = tmp_path / "groups.parquet"
    table = pa.Table.from_pandas(frame_of(rows), preserve_index=False)
    pq.write_table(table, path, row_group_size=7)
    monkeypatch.setattr(sources, "_PIECE", 20)
    monkeypatch.setattr(sources, "_BATCH", 5)
    assert len(sources.pieces([path])) == 9
    assert [each.host for each in review_counts(matching([str(path)]), None).hosts] == [
        each.host for each in whole
    ]
    assert review_counts(matching([str(path)]), None).hosts[0].gain.value == pytest.approx(
        whole[0].gain.value, rel=1e-12
    )


def test_no_file_matches(tmp_path: Path) -> None:
    error = refusal(tmp_path / "*.parquet")
    assert error.exit_code == USAGE
    assert "no file matches" in str(error)
    assert error.hint is not None


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    wrong = {
        "empty.csv": (b"", "it is empty"),
        "blank.csv": (b"\n\n", "it is empty"),
        "binary": (b"\0\1\2", "neither Parquet nor text"),
        "missing.csv": (b"host,service,event\na,b,c\n", "there is no column 'cpu_model'"),
        "word.csv": ((HEADER + GOOD + "a,web,skx,x,many,1\n").encode(), "Row #3"),
        "short.csv": ((HEADER + GOOD + "a,web\n").encode(), "Expected 6 columns, got 2"),
        "latin.csv": ((HEADER + "\xe9,web,skx,cycles:u,1,1\n").encode("latin-1"), "invalid UTF8"),
        "short.json": (b'{"counter-value": "1", "event": "cycles:u", "inter', "not a JSON object"),
        "bare.json": (b'{"interval": 1.0, "counter-value": "1", "event": "x"}', "no 'host' in it"),
    }
    for name, (content, words) in wrong.items():
        path = tmp_path / name
        path.write_bytes(content)
        error = refusal(path)
        assert error.exit_code == FAILED
        assert str(path) in str(error)
        assert words in str(error), str(error)


def test_a_table_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "header.csv"
    path.write_text(HEADER, encoding="utf-8")
    assert "have no rows" in str(refusal(path))
    frame_of(rows_of("a")).iloc[:0].to_parquet(tmp_path / "none.parquet")
    assert "have no rows" in str(refusal(tmp_path / "none.parquet"))


def test_parquet_that_is_truncated_or_damaged(tmp_path: Path) -> None:
    path = written(tmp_path, [row for i in range(50) for row in rows_of(f"h{i}")])
    data = path.read_bytes()
    for kept in (data[: len(data) // 2], data[:6], data[:-4]):
        path.write_bytes(kept)
        assert str(refusal(path)).startswith(f"cannot read {path}: ")
    # Its end is there, and pages are not.
    path.write_bytes(data[:4] + b"\xff" * (len(data) // 3) + data[4 + len(data) // 3 :])
    assert str(refusal(path)).startswith(f"cannot read {path}: ")


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("value", "many", "column 'value' is of type"),
        ("seconds", True, "column 'seconds' is of type bool, and a number was expected"),
        ("event", 7, "column 'event' is of type int64, and text was expected"),
    ],
)
def test_columns_of_the_wrong_type(tmp_path: Path, column: str, value: object, words: str) -> None:
    path = tmp_path / "stats.parquet"
    frame_of(rows_of("a")).assign(**{column: value}).to_parquet(path)
    assert words in str(refusal(path))


def test_a_folder_and_what_may_not_be_read(tmp_path: Path) -> None:
    assert "it is not a file" in str(refusal(tmp_path))


def test_without_dask_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, rows_of("a"))
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    error = refusal(path)
    assert "need Dask's dataframes and pyarrow" in str(error)
    assert error.hint is not None
    assert "tlbcost[fleet]" in error.hint
