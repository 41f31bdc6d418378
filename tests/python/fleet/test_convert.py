# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a log of `perf stat -j -I` become the rows that it has, with how long each counted?"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from tlbcost.common.errors import TlbcostError
from tlbcost.fleet.convert import convert_logs
from tlbcost.fleet.perf_log import Origin

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
