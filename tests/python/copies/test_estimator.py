# SPDX-License-Identifier: GPL-2.0-or-later
"""Do windows of copies come to what they are a sample of?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import TableFormat
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


def write(
    folder: Path, kind: TableFormat, name: str, header: str, rows: list[dict[str, object]]
) -> None:
    lines = [f"# tlbcost {kind.name} {kind.version}", *header.splitlines(), "\t".join(kind.columns)]
    lines += ["\t".join(str(row.get(column, 0)) for column in kind.columns) for row in rows]
    (folder / name).write_text("\n".join([*lines, f"# end: {len(rows)}", ""]), encoding="utf-8")


def tables_of(
    folder: Path,
    windows: list[dict[str, object]],
    attempts: list[dict[str, object]] | None = None,
    counts: list[dict[str, object]] | None = None,
) -> CopyTables:
    """Windows 0, 1, ..., each of which stands for the same time unless `attempts` say otherwise."""
    numbered = [
        {
            "window": i,
            "ended": "enough",
            "call": "NA",
            "timed_references": row["references"],
            **row,
        }
        for i, row in enumerate(windows)
    ]
    if attempts is None:
        attempts = [
            {"window": i, "result": "followed", "error": "NA", "stands_for_ns": 1_000_000,
             "pause_ns": 1000 * (i + 1)}
            for i in range(len(windows))
        ]  # fmt: skip
    header = "# cpu_ns: 1000000000\n# fault_ns: 1200"
    write(folder, formats.COPIES, "copies.tsv", header, attempts)
    write(folder, formats.COPY_WINDOWS, "copy_windows.0.tsv", "# core: width=4", numbered)
    write(folder, formats.COPY_COUNTS, "copy_counts.0.tsv", "", counts or [])
    write(folder, formats.COPY_MAPPINGS, "copy_mappings.0.tsv", "", [])
    write(folder, formats.COPY_MEMORY, "copy_memory.0.tsv", "", [])
    write(folder, formats.COPY_CODE, "copy_code.0.tsv", "", [])
    return read_tables([folder])


def row(window: int, side: str, misses: int, unknown: int = 0) -> dict[str, object]:
    return {
        "window": window, "page_size_bytes": 4096, "side": side, "l1_misses": misses + unknown,
        "stlb_misses": misses, "unknown_misses": unknown,
    }  # fmt: skip


def test_two_phases_weigh_by_their_time(tmp_path: Path) -> None:
    """Half of the time at 1 cycle a reference without walks, half at 9 with a walk each."""
    fast = {"references": 1000, "base_cycles": 1000, "huge_cycles": 1000}
    slow = {"references": 1000, "base_cycles": 9000, "huge_cycles": 4500}
    tables = tables_of(tmp_path, [fast, slow], counts=[row(0, "load", 0), row(1, "load", 1000)])
    weighed = weigh(tables, [RUN], CYCLES_PER_NS)
    # 0.5 s are 1e9 cycles: 1e9 references of the one, a ninth of the other.
    assert weighed.references == pytest.approx(1e9 + 1e9 / 9)
    walks = totals(tables.counts, weighed)[4096, "load"]
    assert walks == (111_111_111, 0, 111_111_111)
    found = saving(tables, weighed)
    assert found is not None
    assert found.value == pytest.approx(0.25)
    assert found.low < 0.25 < found.high


def test_a_window_stands_for_its_time(tmp_path: Path) -> None:
    windows = [
        {"references": 10, "base_cycles": 100, "huge_cycles": 100},
        {"references": 10, "base_cycles": 100, "huge_cycles": 50},
    ]
    attempts = [
        {"window": 0, "result": "followed", "error": "NA", "stands_for_ns": 3_000_000},
        {"window": 1, "result": "followed", "error": "NA", "stands_for_ns": 1_000_000},
    ]
    tables = tables_of(tmp_path, windows, attempts)  # type: ignore[arg-type]
    found = saving(tables, weigh(tables, [RUN], CYCLES_PER_NS))
    assert found is not None
    assert found.value == pytest.approx(0.125)


def test_unknown_misses_are_walks_in_the_value_and_hits_in_the_lower_end(tmp_path: Path) -> None:
    window = {"references": 1000, "base_cycles": 1000, "huge_cycles": 800}
    tables = tables_of(
        tmp_path, [window, window], counts=[row(0, "load", 60, 40), row(1, "load", 60, 40)]
    )
    weighed = weigh(tables, [RUN], CYCLES_PER_NS)
    found = saving(tables, weighed)
    assert found is not None
    assert (found.low, found.value, found.high) == pytest.approx((0.12, 0.2, 0.2))
    assert totals(tables.counts, weighed)[4096, "load"][2] == 200_000_000


def test_a_window_that_was_cut_short_has_the_time_of_its_timed_part(tmp_path: Path) -> None:
    window = {
        "references": 1000, "timed_references": 250, "base_cycles": 500, "huge_cycles": 500
    }  # fmt: skip
    tables = tables_of(tmp_path, [window])
    assert weigh(tables, [RUN], CYCLES_PER_NS).references == pytest.approx(1e9)


def test_windows_without_a_time_are_not_seen(tmp_path: Path) -> None:
    timed = {"references": 1000, "base_cycles": 1000, "huge_cycles": 900}
    untimed = {"references": 5, "base_cycles": "NA", "huge_cycles": "NA", "ended": "call"}
    tables = tables_of(tmp_path, [timed, untimed, untimed, untimed])
    weighed = weigh(tables, [RUN], CYCLES_PER_NS)
    assert weighed.share == pytest.approx(0.25)
    record = record_of(tables, weighed, [RUN])
    assert record.windows == 4
    assert record.ended == {"call": 3, "enough": 1}
    assert (record.pauses, record.median_pause_ns, record.longest_pause_ns) == (4, 2500, 4000)
    assert record.added_cpu_fraction == pytest.approx(1e-5)


def test_too_few_windows_are_reported_with_their_reason(tmp_path: Path) -> None:
    window = {"references": 1000, "base_cycles": 1000, "huge_cycles": 900}
    why = too_few(tables_of(tmp_path, [window]))
    assert why is not None
    assert why.startswith("1 window of copies could be timed, and 4 are needed")
    refused = [
        {"window": i, "result": "refused-seccomp", "error": "NA", "stands_for_ns": 1}
        for i in range(3)
    ]
    assert too_few(tables_of(tmp_path, [], refused)) == (  # type: ignore[arg-type]
        "the program has a seccomp filter, which a copy could be killed by"
    )
    assert too_few(tables_of(tmp_path, [window] * 4)) is None
    assert too_few(tables_of(tmp_path, [window] * 3)) is not None


def test_a_short_program_is_run_again_for_more_windows(tmp_path: Path) -> None:
    window = {"references": 1000, "base_cycles": 1000, "huge_cycles": 900}
    assert more_may_do(tables_of(tmp_path, [window] * 9), measured=False)
    assert not more_may_do(tables_of(tmp_path, [window] * 10), measured=False)
    # What is measured is the answer.
    assert more_may_do(tables_of(tmp_path, [window] * 5), measured=True)
    assert not more_may_do(tables_of(tmp_path, [window] * 6), measured=True)
    assert not more_may_do(tables_of(tmp_path, []), measured=True)


@pytest.mark.long
@pytest.mark.parametrize("windows", [4, 10, 30])
def test_the_most_walks_are_as_many_as_there_are(tmp_path: Path, windows: int) -> None:
    random, truth, held, trials = np.random.default_rng(windows), 100.0, 0, 60
    for trial in range(trials):
        walks = [round(each) for each in random.gamma(4, truth / 4, windows)]
        folder = tmp_path / str(trial)
        folder.mkdir()
        made: list[dict[str, object]] = [
            {"references": 1000, "base_cycles": 10**6, "huge_cycles": 10**6} for _ in walks
        ]
        tables = tables_of(folder, made, counts=[row(i, "load", n) for i, n in enumerate(walks)])
        weighed = weigh(tables, [RUN], CYCLES_PER_NS)
        found = totals(tables.counts, weighed)[4096, "load"][2]
        # A window is 0.5 ms of 1 s.
        held += found * most_walks(tables, weighed) >= 2000 * truth
    assert held >= 53


def test_windows_that_are_alike_have_all_walks(tmp_path: Path) -> None:
    window = {"references": 1000, "base_cycles": 1000, "huge_cycles": 800}
    alike = tables_of(tmp_path, [window, window], counts=[row(i, "load", 60) for i in range(2)])
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
    windows = [
        {"references": 100, "base_cycles": 400, "huge_cycles": 200, "window": 1},
        {"references": 100, "base_cycles": 400, "huge_cycles": 400, "window": 3},
    ]
    results = ["busy", "followed", "starved", "followed", "refused-seccomp"]
    attempts: list[dict[str, object]] = [
        {"window": i, "result": result, "error": "NA", "stands_for_ns": 1, "user_ns": 100}
        for i, result in enumerate(results)
    ]
    weighed = weigh(tables_of(tmp_path, windows, attempts), [RUN], CYCLES_PER_NS)
    # The first has all of the instant before it, and half of the one between.
    assert list(weighed.windows["stands_for_ns"]) == [250, 150]
    assert weighed.share == pytest.approx(400 / 500)


def test_time_in_the_kernel_is_no_windows(tmp_path: Path) -> None:
    windows = [{"references": 100, "base_cycles": 400, "huge_cycles": 200}] * 2
    attempts: list[dict[str, object]] = [
        {"window": i, "result": "followed", "error": "NA", "stands_for_ns": 900, "user_ns": user_ns}
        for i, user_ns in enumerate((100, 300))
    ]
    weighed = weigh(tables_of(tmp_path, windows, attempts), [RUN], CYCLES_PER_NS)
    assert list(weighed.windows["stands_for_ns"]) == [100, 300]


def test_page_faults_of_copying_are_not_the_programs(tmp_path: Path) -> None:
    attempts: list[dict[str, object]] = [
        {"window": 0, "result": "followed", "error": "NA", "pause_ns": 1_000_000, "faults": 900,
         "added_faults": 500},
        {"window": 1, "result": "busy", "error": "NA", "pause_ns": "NA", "added_faults": "NA"},
    ]  # fmt: skip
    run = Run(2_000_000_000, 1_000_000_000, 10_000_000, 700, 0, 1 << 20)
    windows = [{"references": 100, "base_cycles": 400, "huge_cycles": 200}]
    found = without_copies(tables_of(tmp_path, windows, attempts), run)
    assert found.minor_faults == 200
    # The pause, and 1.2 us for each page.
    assert found.system_ns == 10_000_000 - 1_000_000 - 600_000
    assert found.user_ns == run.user_ns
