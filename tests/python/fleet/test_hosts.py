# SPDX-License-Identifier: GPL-2.0-or-later
"""Is each host estimated as `tlbcost estimate --from` does, and what cannot be left out?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import fleet_counts
import numpy as np
import pandas as pd
import pytest
from builders.fleet import COUNTS, Row, log_of, reviewed, rows_of, written
from builders.review import plan_of
from tlbcost.answer.estimate import estimate
from tlbcost.answer.request import EstimateRequest
from tlbcost.common.errors import TlbcostError
from tlbcost.fleet.document import FleetDocument, LeftOut
from tlbcost.fleet.review import review_counts
from tlbcost.fleet.sources import matching
from tlbcost.review.plan import read_plan

LOADS = "dtlb_load_misses.walk_active:u"
STORES = "dtlb_store_misses.walk_active:u"
CODE = "itlb_misses.walk_active:u"
# Rows to count in both modes.
BOTH = rows_of("a")[::4]
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "documents"


def one_by_one(
    folder: Path, rows: list[Row], cpu: str, calibration: Path | None = None
) -> tuple[float, ...]:
    """Walk share, bound, and gain with its ends, of a log of one host."""
    log = folder / "one.json"
    log.write_text(log_of(rows), encoding="utf-8")
    found = estimate(EstimateRequest(imported=(log,), cpu=cpu, calibration=calibration))
    assert found.counted is not None
    gain = found.gain.expected_fraction
    share = found.counted.witness.total.value
    return share, found.gain.bound_fraction.value, gain.value, gain.low, gain.high


def all_accounted(document: FleetDocument) -> bool:
    """Every row is used, or left out for one reason."""
    return document.rows_read == document.rows_used + sum(e.rows for e in document.left_out)


def the_one(document: FleetDocument, reason: str) -> LeftOut:
    (found,) = [each for each in document.left_out if each.reason == reason]
    return found


def test_the_same_numbers_as_one_by_one(tmp_path: Path) -> None:
    frame = fleet_counts.hosts_frame(12, 4, np.random.default_rng(7))
    frame.to_parquet(tmp_path / "stats.parquet", index=False)
    found = review_counts(matching([str(tmp_path / "*.parquet")]), None)
    assert all_accounted(found.document)
    whole = frame[frame["running_fraction"] == 1].astype(dict.fromkeys(["host", "service"], str))
    compared = 0
    for each in found.hosts:
        own = whole[(whole["host"] == each.host) & (whole["service"] == each.service)]
        if own["value"].isna().any() or (own["value"] < 0).any() or len(own) < 20:
            continue
        rows = list(own.iloc[:, :6].itertuples(index=False, name=None))
        cpu = {"GenuineIntel,6,85,7": "clx"}.get(rows[0][2], rows[0][2])
        ours = (
            each.share_fraction, each.bound_fraction, each.gain.value, each.gain.low,
            each.gain.high,
        )  # fmt: skip
        assert ours == pytest.approx(one_by_one(tmp_path, rows, cpu), rel=1e-9)
        compared += 1
    assert compared > 30


def test_walks_are_priced_by_the_calibration_of_the_plan(tmp_path: Path) -> None:
    rows: list[Row] = [
        ("a", "db", "zen4", event, value, 1.0)
        for event, value in (("cycles:u", 3e9), ("rf045:u", 2e6), ("rf85:u", 1e4))
    ]
    found = reviewed(tmp_path, rows)
    assert not found.hosts
    left = the_one(found.document, "no_costs")
    assert "what a walk costs is not known" in left.why
    calibration = GOLDEN / "calibration.tsv"
    plan = tmp_path / "plan.toml"
    plan.write_text(f"[machines.epyc]\ncalibration = '{calibration}'\n", encoding="utf-8")
    found = reviewed(tmp_path, rows, read_plan(plan, services=False))
    (each,) = found.hosts
    assert (each.machine, each.cpu, each.way) == ("epyc", "amd64_fam19h_zen4", "walks_times_cost")
    expected = one_by_one(tmp_path, rows, "zen4", calibration)
    assert (each.share_fraction, each.bound_fraction, each.gain.value) == pytest.approx(
        expected[:3], rel=1e-9
    )


def test_rows_that_are_no_counts_are_never_averaged_in(tmp_path: Path) -> None:
    good = rows_of("a")
    bad: list[Row] = [
        ("a", "web", "skx", LOADS, None, 1.0, 1.0),
        ("a", "web", "skx", LOADS, 9e9, 1.0, 0.5),
        ("a", "web", "skx", LOADS, -5.0, 1.0, 1.0),
        ("a", "web", "skx", LOADS, 1e9, 0.0, 1.0),
        ("a", "web", "skx", LOADS, float("inf"), 1.0, 1.0),
        ("a", "web", "skx", LOADS, 1e15, 1.0, 1.0),
        ("a", "web", "skx", LOADS, 7.0, 1.0, 0.0),
        ("a", "web", "skx", LOADS, 7.0, 1.0, 3.0),
        (None, "web", "skx", LOADS, 7e9, 1.0, 1.0),
        ("a", "", "skx", LOADS, 7e9, 1.0, 1.0),
    ]
    found = reviewed(tmp_path, good + bad)
    assert found.hosts == reviewed(tmp_path, good).hosts
    counted: Counter[str] = Counter()
    for each in found.document.left_out:
        counted[each.reason] += each.rows
    assert counted == {"not_counted": 2, "multiplexed": 1, "impossible": 5, "nameless": 2}
    assert all_accounted(found.document)


def test_rows_left_out_do_not_shift_the_share(tmp_path: Path) -> None:
    rows = rows_of("a", seconds=20)
    # A second of loads is lost: the others have a second more, which is not in the ratio.
    rows = [(*row[:4], COUNTS[str(row[3])], row[5]) for row in rows]
    whole = reviewed(tmp_path, rows).hosts[0]
    rows.remove(next(row for row in rows if row[3] == LOADS))
    partly = reviewed(tmp_path, rows).hosts[0]
    assert partly.share_fraction == pytest.approx(whole.share_fraction, rel=1e-12)


def test_an_event_of_a_part_of_the_time_is_not_compared(tmp_path: Path) -> None:
    rows = rows_of("a", seconds=10)
    rows = [row for row in rows if row[3] != LOADS] + [row for row in rows if row[3] == LOADS][:8]
    found = reviewed(tmp_path, rows)
    assert not found.hosts
    assert the_one(found.document, "uneven").event == LOADS
    assert "walk_active_cycles.load" in the_one(found.document, "missing_events").why
    assert all_accounted(found.document)


@pytest.mark.parametrize(
    ("rows", "reason", "words"),
    [
        (rows_of("a", without=(LOADS,)), "missing_events", "walk_active_cycles.load"),
        (rows_of("a", without=(STORES,)), "missing_events", "walk_active_cycles.store"),
        (rows_of("a", without=("cycles:u",)), "missing_events", "cycles"),
        (rows_of("a", cycles=0.0), "idle", "no cycles"),
        (rows_of("a", dtlb_load=6.0), "impossible", "more walk_active_cycles.load than cycles"),
        (rows_of("a", cpu="no-such-cpu"), "unknown_cpu", "no event table is called 'no-such-cpu'"),
        (rows_of("a", cpu="GenuineIntel,9,1,1"), "unknown_cpu", "no event table is of the CPU"),
        (rows_of("a") + rows_of("a", "db", "icx"), "mixed_cpus", "several CPUs"),
        (
            [*rows_of("a"), *((*row[:3], "itlb_misses.walk_active", *row[4:]) for row in BOTH)],
            "mixed_modes",
            "counts user mode",
        ),
        (rows_of("a", cpu="perf"), "unknown_event", "nothing that is known"),
    ],
)  # fmt: skip
def test_hosts_without_an_estimate(
    tmp_path: Path, rows: list[Row], reason: str, words: str
) -> None:
    found = reviewed(tmp_path, rows + rows_of("good"))
    assert {each.host for each in found.hosts} == {"good"}
    mine = [each for each in found.document.left_out if each.reason == reason]
    assert mine
    assert all(words in each.why and each.examples == ("a",) for each in mine), mine
    assert all_accounted(found.document)


def test_one_cpu_by_two_names_is_one(tmp_path: Path) -> None:
    names = ("skx", "SkylakeX", "GenuineIntel,6,85,4")
    rows = [row for name in names for row in rows_of("a", cpu=name)]
    (each,) = reviewed(tmp_path, rows).hosts
    assert (each.cpu, each.seconds, each.rows) == ("skx", 9.0, len(rows))


def test_unknown_events_are_listed_and_the_rest_is_used(tmp_path: Path) -> None:
    rows: list[Row] = [*rows_of("a"), ("a", "web", "skx", "LLC-misses:u", 5.0, 1.0)]
    found = reviewed(tmp_path, rows)
    assert len(found.hosts) == 1
    assert the_one(found.document, "unknown_event").event == "LLC-misses:u"


def test_hosts_that_lack_code_are_a_row_of_their_own(tmp_path: Path) -> None:
    rows = rows_of("a") + rows_of("b", without=(CODE,))
    document = reviewed(tmp_path, rows).document
    assert [(row.hosts, row.without) for row in document.rows] == [
        (1, ()),
        (1, ("walk_active_cycles.fetch",)),
    ]


@pytest.mark.parametrize(("end", "gaining"), [("low", 1), ("value", 2), ("high", 3)])
def test_hosts_that_gain_by_the_policy(tmp_path: Path, end: str, gaining: int) -> None:
    rows = [
        row
        for host, factor in (("a", 1.0), ("b", 0.5), ("c", 0.1))
        for row in rows_of(host, dtlb_load=factor, dtlb_store=factor)
    ]
    service = "[[services]]\nname = 'one'\ncommand = ['x']\n"
    plan = plan_of(tmp_path, f"[policy]\ndecide_on = '{end}'\nleast_gain = '2 %'\n{service}")
    (row,) = reviewed(tmp_path, rows, plan).document.rows
    assert (row.hosts, row.hosts_gaining) == (3, gaining)
    assert (row.hosts_gaining_low, row.hosts_gaining_value, row.hosts_gaining_high) == (1, 2, 3)


def test_quantiles_are_over_hosts(tmp_path: Path) -> None:
    rows = [row for i in range(11) for row in rows_of(f"h{i}", dtlb_load=i / 10)]
    found = reviewed(tmp_path, rows)
    (row,) = found.document.rows
    shares = pd.Series([each.share_fraction for each in found.hosts])
    assert row.share_fraction.p50 == pytest.approx(shares.median())
    assert row.share_fraction.p90 == pytest.approx(shares.quantile(0.9))
    assert row.gain_low_fraction.p50 < row.gain_fraction.p50 < row.gain_high_fraction.p50


def test_two_machines_of_a_plan_with_one_cpu(tmp_path: Path) -> None:
    machines = "[machines.a]\ncore = 'skx'\n[machines.b]\ncore = 'skx'\n"
    plan = plan_of(tmp_path, f"{machines}[[services]]\nname = 'one'\ncommand = ['x']\n")
    with pytest.raises(TlbcostError, match=r"machines\.b: its CPU is that of machines\.a"):
        reviewed(tmp_path, rows_of("a"), plan)
    one = plan_of(tmp_path, "[machines.a]\ncore = 'skx'\n[[services]]\nname = 'o'\ncommand = ['x']")
    assert reviewed(tmp_path, rows_of("h"), one).hosts[0].machine == "a"


def test_several_files_are_one_fleet(tmp_path: Path) -> None:
    rows = rows_of("a") + rows_of("b", "db", "icx")
    whole = reviewed(tmp_path, rows).hosts
    written(tmp_path, rows[::2], "part-1.csv")
    written(tmp_path, rows[1::2], "part-2.parquet")
    found = review_counts(matching([str(tmp_path / "part-*")]), None)
    assert found.document.files == 2
    for ours, theirs in zip(found.hosts, whole, strict=True):
        assert ours.gain.value == pytest.approx(theirs.gain.value, rel=1e-12)
        assert ours.rows == theirs.rows
