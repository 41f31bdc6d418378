# SPDX-License-Identifier: GPL-2.0-or-later
"""Are files read whatever holds the rows, a log of perf converted, and a fleet reported?"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.fleet import Row, frame_of, log_of, reviewed, rows_of, written
from builders.review import HOSTILE
from builders.tree import printed, there, valid
from tlbcost.common.document import to_json
from tlbcost.common.errors import FAILED, TlbcostError
from tlbcost.fleet import sources
from tlbcost.fleet.perf_log import Origin
from tlbcost.fleet.report import hosts_csv, print_report, to_csv, to_markdown
from tlbcost.fleet.review import FleetReview, convert_logs, review_counts
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
    assert "tlbcost[fleet]" in there(error.hint)


ORIGIN = Origin("h1", "web", "skx")


def line(interval: float, event: str = "cycles:u", value: object = "100", **more: object) -> str:
    found = {"interval": interval, "counter-value": value, "unit": "", "event": event, **more}
    return json.dumps(found) + "\n"


def converted(folder: Path, text: str, origin: Origin = ORIGIN, to: str = "t.csv") -> pd.DataFrame:
    log, output = folder / "perf.log", folder / to
    log.write_text(text, encoding="utf-8")
    rows = convert_logs([log], origin, output)
    found = pd.read_csv(output) if output.suffix == ".csv" else pd.read_parquet(output)
    assert len(found) == rows
    assert sorted(path.name for path in folder.iterdir()) == sorted([log.name, to])
    return found


def test_seconds_are_those_of_the_interval(tmp_path: Path) -> None:
    text = line(1.0) + line(1.0, "x:u") + line(2.5) + line(2.5, "x:u")
    # Started again.
    text += line(0.5) + line(0.5, "x:u")
    found = converted(tmp_path, text)
    assert found["seconds"].tolist() == [1.0, 1.0, 1.5, 1.5, 0.5, 0.5]
    assert set(found["host"]) == {"h1"}
    assert list(found.columns) == [
        "host", "service", "cpu_model", "event", "value", "seconds", "running_fraction",
    ]  # fmt: skip


@pytest.mark.parametrize("to", ["t.csv", "t.parquet"])
def test_what_was_not_counted_and_what_was_scaled(tmp_path: Path, to: str) -> None:
    text = line(1.0, value="<not counted>", **{"pcnt-running": 0.0})
    text += line(1.0, "x:u", "5", **{"pcnt-running": 40.0})
    text += line(1.0, "task-clock", "1.5", unit="msec")
    text += '{"interval": 1.0, "metric-value": "1.2", "metric-unit": "insn per cycle"}\n'
    found = converted(tmp_path, text, to=to)
    assert found["value"].isna().tolist() == [True, False, False]
    assert found["running_fraction"].tolist()[1:] == [0.4, 1.0]
    assert found["value"].tolist()[1:] == [5.0, 1.5e6]


def test_cgroups_are_services_unless_one_is_given(tmp_path: Path) -> None:
    text = line(1.0, cgroup="/web") + line(1.0, cgroup="/db") + line(2.0, cgroup="/web")
    found = converted(tmp_path, text, Origin("h1", None, "skx"))
    assert found["service"].tolist() == ["/web", "/db", "/web"]
    assert found["seconds"].tolist() == [1.0, 1.0, 1.0]
    assert set(converted(tmp_path, text)["service"]) == {"web"}


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    log, output = tmp_path / "perf.log", tmp_path / "t.csv"
    log.write_text(line(1.0), encoding="utf-8")
    for origin, words, option in (
        (Origin(None, "web", "skx"), "no 'host' in it", "--host"),
        (Origin("h1", None, "skx"), "no 'service' in it", "--service"),
        (Origin("h1", "web", None), "no 'cpu_model' in it", "--cpu"),
    ):
        with pytest.raises(TlbcostError, match=f"{log}:1: {words}") as caught:
            convert_logs([log], origin, output)
        assert option in str(caught.value.hint)
    with pytest.raises(TlbcostError, match="no event table is called 'nonesuch'"):
        convert_logs([log], Origin("h1", "web", "nonesuch"), output)
    with pytest.raises(TlbcostError, match="name that ends in"):
        convert_logs([log], ORIGIN, tmp_path / "t.json")
    assert not output.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the logs of --convert have no counts"),
        ('{"counter-value": "1", "event": "x"}\n', "no interval"),
        (line(1.0) + "x\n", "2: not a JSON object"),
        (line(1.0) + "\xff".encode().decode("latin-1")[:1], "2: not a JSON object"),
        (line(1.0, value="-3"), "1: not a count: -3"),
    ],
)
def test_logs_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    log, output = tmp_path / "perf.log", tmp_path / "t.parquet"
    log.write_text(text, encoding="utf-8")
    with pytest.raises(TlbcostError, match=words):
        convert_logs([log], ORIGIN, output)
    assert [path.name for path in tmp_path.iterdir()] == ["perf.log"]


def hostile(folder: Path) -> FleetReview:
    """Two services, one with a name that would be markup, and a host that is left out."""
    rows: list[Row] = rows_of("a") + rows_of("b", HOSTILE, dtlb_load=0.1)
    return reviewed(folder, rows + rows_of("<c>", cpu="nonesuch"))


def test_text(tmp_path: Path) -> None:
    text = printed(print_report, hostile(tmp_path).document)
    assert "\x1b" not in text
    flat = " ".join(text.split())
    assert "web skx 1 1 23 % (23 to 23) 14 % (14 to 14)" in flat
    assert "36 rows of 3 hosts in 1 file; 24 rows used." in flat
    assert "left out: 12 rows of 1 host (web; nonesuch): no event table is called" in flat


def test_many_reasons_are_cut_short(tmp_path: Path) -> None:
    rows = rows_of("a")
    rows += [row for i in range(25) for row in rows_of(f"h{i}", cpu=f"cpu {i}")]
    text = printed(print_report, reviewed(tmp_path, rows).document)
    assert text.count("left out: ") == 21
    assert "left out: 60 more rows, for 5 reasons; --json has them" in text


def test_json_is_as_its_schema_says(tmp_path: Path) -> None:
    document = valid(to_json(hostile(tmp_path).document), "fleet")
    assert document["schema"] == "tlbcost-fleet-1"
    assert document["rows_read"] == 36


def test_csv(tmp_path: Path) -> None:
    found = hostile(tmp_path)
    table = pd.read_csv(io.StringIO(to_csv(found.document)))
    assert table["hosts"].tolist() == [1, 1]
    assert table["gain_fraction_p50"].tolist() == [
        row.gain_fraction.p50 for row in found.document.rows
    ]
    hosts = pd.read_csv(io.StringIO(hosts_csv(found.hosts)))
    assert hosts["host"].tolist() == ["a", "b"]
    assert hosts["gain_fraction_low"].tolist() == [each.gain.low for each in found.hosts]


def test_markdown_shows_names_as_they_are(tmp_path: Path) -> None:
    text = to_markdown(hostile(tmp_path).document)
    assert "<script" not in text
    assert "<c>" not in text
    row = next(line for line in text.splitlines() if line.startswith("| &lt;"))
    assert row.replace("\\|", "").count("|") == 7
