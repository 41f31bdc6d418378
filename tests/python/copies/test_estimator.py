# SPDX-License-Identifier: GPL-2.0-or-later
"""Do windows of copies come to what they are a sample of?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from builders.tree import there
from builders.tree import write_table as write
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.copies.estimator import (
    CopyTables,
    most_walks,
    read_tables,
    record_of,
    saving,
    totals,
    weigh,
    without_copies,
)
from tlbcost.copies.run import more_may_do, too_few
from tlbcost.run.outcome import Run

RUN = Run(2_000_000_000, 1_000_000_000, 0, 100, 0, 1 << 20)
CYCLES_PER_NS = 2.0


Row = dict[str, object]


def window(references: int, base_cycles: object, huge_cycles: object, **more: object) -> Row:
    return {
        "ended": "enough", "call": "NA", "references": references, "timed_references": references,
        "base_cycles": base_cycles, "huge_cycles": huge_cycles, **more,
    }  # fmt: skip


def attempt(window: int, stands_for_ns: int, result: str = "followed", **more: object) -> Row:
    made = {"window": window, "stands_for_ns": stands_for_ns, "result": result, "error": "NA"}
    return made | more


def tables_of(
    folder: Path, windows: list[Row], attempts: list[Row] | None = None, counts: Sequence[Row] = ()
) -> CopyTables:
    """Windows 0, 1, ..., each of which stands for the same time unless `attempts` say otherwise."""
    numbered = [{"window": i, **row} for i, row in enumerate(windows)]
    if attempts is None:
        attempts = [attempt(i, 10**6, pause_ns=1000 * (i + 1)) for i in range(len(windows))]
    write(folder, formats.COPIES, attempts, "# cpu_ns: 1000000000\n# fault_ns: 1200")
    write(folder, formats.COPY_WINDOWS, numbered, "# core: width=4")
    write(folder, formats.COPY_COUNTS, counts)
    for kind in (formats.COPY_MAPPINGS, formats.COPY_MEMORY, formats.COPY_CODE):
        write(folder, kind, [])
    return read_tables([folder])


def row(window: int, side: str, misses: int, unknown: int = 0) -> Row:
    return {
        "window": window, "page_size_bytes": 4096, "side": side, "l1_misses": misses + unknown,
        "stlb_misses": misses, "unknown_misses": unknown,
    }  # fmt: skip


def test_two_phases_weigh_by_their_time(tmp_path: Path) -> None:
    """Half of the time at 1 cycle a reference without walks, half at 9 with a walk each."""
    phases = [window(1000, 1000, 1000), window(1000, 9000, 4500)]
    tables = tables_of(tmp_path, phases, counts=[row(0, "load", 0), row(1, "load", 1000)])
    weighed = weigh(tables, [RUN], CYCLES_PER_NS)
    # 0.5 s are 1e9 cycles: 1e9 references of the one, a ninth of the other.
    assert weighed.references == pytest.approx(1e9 + 1e9 / 9)
    walks = totals(tables.counts, weighed)[4096, "load"]
    assert walks == (111_111_111, 0, 111_111_111)
    found = there(saving(tables, weighed))
    assert found.value == pytest.approx(0.25)
    assert found.low < 0.25 < found.high


def test_a_window_stands_for_its_time(tmp_path: Path) -> None:
    windows = [window(10, 100, 100), window(10, 100, 50)]
    tables = tables_of(tmp_path, windows, [attempt(0, 3_000_000), attempt(1, 1_000_000)])
    assert there(saving(tables, weigh(tables, [RUN], CYCLES_PER_NS))).value == pytest.approx(0.125)


def test_unknown_misses_are_walks_in_the_value_and_hits_in_the_lower_end(tmp_path: Path) -> None:
    counts = [row(i, "load", 60, 40) for i in range(2)]
    tables = tables_of(tmp_path, [window(1000, 1000, 800)] * 2, counts=counts)
    weighed = weigh(tables, [RUN], CYCLES_PER_NS)
    found = there(saving(tables, weighed))
    assert (found.low, found.value, found.high) == pytest.approx((0.12, 0.2, 0.2))
    assert totals(tables.counts, weighed)[4096, "load"][2] == 200_000_000


def test_a_window_that_was_cut_short_has_the_time_of_its_timed_part(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [window(1000, 500, 500, timed_references=250)])
    assert weigh(tables, [RUN], CYCLES_PER_NS).references == pytest.approx(1e9)


def test_windows_without_a_time_are_not_seen(tmp_path: Path) -> None:
    untimed = window(5, "NA", "NA", ended="call")
    tables = tables_of(tmp_path, [window(1000, 1000, 900), untimed, untimed, untimed])
    weighed = weigh(tables, [RUN], CYCLES_PER_NS)
    assert weighed.share == pytest.approx(0.25)
    record = record_of(tables, weighed, [RUN])
    assert record.windows == 4
    assert record.ended == {"call": 3, "enough": 1}
    assert (record.pauses, record.median_pause_ns, record.longest_pause_ns) == (4, 2500, 4000)
    assert record.added_cpu_fraction == pytest.approx(1e-5)


def test_too_few_windows_are_reported_with_their_reason(tmp_path: Path) -> None:
    one = window(1000, 1000, 900)
    why = there(too_few(tables_of(tmp_path, [one])))
    assert why.startswith("1 window of copies could be timed, and 4 are needed")
    refused = [attempt(i, 1, "refused-seccomp") for i in range(3)]
    assert too_few(tables_of(tmp_path, [], refused)) == (
        "the program has a seccomp filter, which a copy could be killed by"
    )
    assert too_few(tables_of(tmp_path, [one] * 4)) is None
    assert too_few(tables_of(tmp_path, [one] * 3)) is not None


@pytest.mark.parametrize(
    ("windows", "measured", "more"),
    # What is measured is the answer.
    [(9, False, True), (10, False, False), (5, True, True), (6, True, False), (0, True, False)],
)
def test_a_short_program_is_run_again_for_more_windows(
    tmp_path: Path, windows: int, measured: bool, more: bool
) -> None:
    tables = tables_of(tmp_path, [window(1000, 1000, 900)] * windows)
    assert more_may_do(tables, measured=measured) is more


@pytest.mark.long
@pytest.mark.parametrize("windows", [4, 10, 30])
def test_the_most_walks_are_as_many_as_there_are(tmp_path: Path, windows: int) -> None:
    random, truth, held, trials = np.random.default_rng(windows), 100.0, 0, 60
    for trial in range(trials):
        walks = [round(each) for each in random.gamma(4, truth / 4, windows)]
        made = [window(1000, 10**6, 10**6)] * windows
        counts = [row(i, "load", n) for i, n in enumerate(walks)]
        tables = tables_of(tmp_path / str(trial), made, counts=counts)
        weighed = weigh(tables, [RUN], CYCLES_PER_NS)
        found = totals(tables.counts, weighed)[4096, "load"][2]
        # A window is 0.5 ms of 1 s.
        held += found * most_walks(tables, weighed) >= 2000 * truth
    assert held >= 53


def test_windows_that_are_alike_have_all_walks(tmp_path: Path) -> None:
    counts = [row(i, "load", 60) for i in range(2)]
    alike = tables_of(tmp_path, [window(1000, 1000, 800)] * 2, counts=counts)
    assert most_walks(alike, weigh(alike, [RUN], CYCLES_PER_NS)) == pytest.approx(1)


def test_no_windows_are_no_estimate(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [])
    weighed = weigh(tables, [RUN], CYCLES_PER_NS)
    assert saving(tables, weighed) is None
    assert (weighed.references, weighed.share) == (0.0, 0.0)


def test_a_cut_table_is_refused(tmp_path: Path) -> None:
    tables_of(tmp_path, [])
    (tmp_path / "copies.tsv").write_text("# tlbcost copies 1\n", encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"copies\.tsv"):
        read_tables([tmp_path])


def test_windows_stand_for_instants_at_which_no_worker_was_free(tmp_path: Path) -> None:
    windows = [window(100, 400, 200, window=1), window(100, 400, 400, window=3)]
    results = ["busy", "followed", "starved", "followed", "refused-seccomp"]
    attempts = [attempt(i, 1, result, user_ns=100) for i, result in enumerate(results)]
    weighed = weigh(tables_of(tmp_path, windows, attempts), [RUN], CYCLES_PER_NS)
    # The first has all of the instant before it, and half of the one between.
    assert list(weighed.windows["stands_for_ns"]) == [250, 150]
    assert weighed.share == pytest.approx(400 / 500)


def test_time_in_the_kernel_is_no_windows(tmp_path: Path) -> None:
    attempts = [attempt(0, 900, user_ns=100), attempt(1, 900, user_ns=300)]
    tables = tables_of(tmp_path, [window(100, 400, 200)] * 2, attempts)
    weighed = weigh(tables, [RUN], CYCLES_PER_NS)
    assert list(weighed.windows["stands_for_ns"]) == [100, 300]


def test_page_faults_of_copying_are_not_the_programs(tmp_path: Path) -> None:
    attempts = [
        attempt(0, 0, pause_ns=1_000_000, faults=900, added_faults=500),
        attempt(1, 0, "busy", pause_ns="NA", added_faults="NA"),
    ]
    run = Run(2_000_000_000, 1_000_000_000, 10_000_000, 700, 0, 1 << 20)
    found = without_copies(tables_of(tmp_path, [window(100, 400, 200)], attempts), run)
    assert found.minor_faults == 200
    # The pause, and 1.2 us for each page.
    assert found.system_ns == 10_000_000 - 1_000_000 - 600_000
    assert found.user_ns == run.user_ns
