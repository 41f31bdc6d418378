# SPDX-License-Identifier: GPL-2.0-or-later
"""Are windows read as they were written, and counts of processes summed? Is no table refused?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import BASE, HUGE, RUN, killed, process
from builders.calibration import of_this_machine
from builders.tree import fails
from tlbcost.calibration.records import page_costs
from tlbcost.common import formats
from tlbcost.common.formats import Cell, format_table
from tlbcost.simulator.counts import Side, Touched, footprint_pages, splintered, total_counts
from tlbcost.simulator.memory_tables import (
    MEASURED,
    WARM,
    ImageWindows,
    Window,
    plan_for,
    read_windows,
)

ROWS: list[tuple[Cell, ...]] = [(1, 400_000, 100_000, 345_678, 301_234), (2, 9_000_000, 7, 20, 20)]


def text(state: str = "exited", rows: list[tuple[Cell, ...]] = ROWS, **header: Cell) -> str:
    given: dict[str, Cell] = {
        "pid": 7, "program": "/bin/app", "state": state, "references": 20_000_000,
        "period": 8_600_000, "window": 100_000, "core": "width=6,rob=512",
    }  # fmt: skip
    return format_table(formats.WINDOWS, given | header, rows)


def put(folder: Path, content: str, name: str = "windows.7.0.tsv") -> None:
    (folder / name).write_text(content, encoding="utf-8")


def test_windows_are_read(tmp_path: Path) -> None:
    put(tmp_path, text())
    (tmp_path / "counts.7.0.tsv").write_text("of no matter")
    windows = (Window(100_000, 345_678, 301_234, 400_000), Window(7, 20, 20, 9_000_000))
    assert read_windows(tmp_path) == (
        ImageWindows(7, "/bin/app", 20_000_000, "width=6,rob=512", windows),
    )


def test_short_images_have_no_windows_and_cut_windows_may_have_no_cycle(tmp_path: Path) -> None:
    assert read_windows(tmp_path) == ()
    cut = [ROWS[0], (2, 9_000_000, 1, 0, 0)]
    for rows, windows in (([], ()), (cut, (Window(1, 0, 0, 9_000_000),))):
        put(tmp_path, text(rows=rows, references=3000))
        (image,) = read_windows(tmp_path)
        assert (image.references, image.windows[1:]) == (3000, windows)
        assert bool(image.windows) == bool(rows)


@pytest.mark.parametrize(
    "unfinished",
    [text(state="running", rows=[], references=None), text(state="running"),
     text().partition("# end")[0], text().replace("# end: 2", "# end: 3"),
     text().partition("thread\t")[0]],
)  # fmt: skip
def test_what_an_unfinished_image_stands_for_is_not_known(tmp_path: Path, unfinished: str) -> None:
    put(tmp_path, unfinished)
    (image,) = read_windows(tmp_path)
    assert (image.pid, image.references, image.windows) == (7, None, ())


@pytest.mark.parametrize(
    "garbage",
    ["garbage", text().replace("windows 1", "windows 9"), text().replace("base_cycles", "cycles"),
     text().replace("345678", "many"), text().replace("345678", "-3"),
     text().replace("345678", "NA"), text(rows=[(1, 400_000, 100_000, 0, 301_234)]),
     text(rows=[(1, 400_000, 100_000, 345_678, 0)]), text().replace("\t345678", ""),
     text(references=None), text(references="1e9"), text(pid="x"),
     text().replace("# core", "# cure"), text().replace("# state", "# condition")],
)  # fmt: skip
def test_garbage_is_refused_by_name(tmp_path: Path, garbage: str) -> None:
    put(tmp_path, garbage)
    with fails(r"windows\.7\.0\.tsv", 125):
        read_windows(tmp_path)
    (tmp_path / "windows.7.0.tsv").write_bytes(b"\xff\xfe\x00" + garbage.encode())
    with fails(r"windows\.7\.0\.tsv", 125):
        read_windows(tmp_path)
    # Of one that was killed before its first line.
    put(tmp_path, "")
    assert read_windows(tmp_path) == ()


@pytest.mark.parametrize(
    ("user_s", "most"), [(0.001, 32), (0.5, 32), (1.0, 64), (1.5, 96), (100.0, 96)]
)
def test_short_programs_get_fewer_windows(user_s: float, most: int) -> None:
    plan = plan_for([replace(RUN, user_ns=round(user_s * 1e9))])
    assert plan.most == most
    assert plan.period >= WARM + MEASURED
    assert plan.option == f"{plan.period}:{WARM}:{MEASURED}:{most}"


def test_windows_of_a_long_run_are_not_dense_at_first() -> None:
    short = plan_for([replace(RUN, user_ns=100_000_000)])
    long = plan_for([replace(RUN, user_ns=60_000_000_000)])
    assert short.period == 2 * (WARM + MEASURED)
    # One reference in 33 ns fills them.
    assert long.period * long.most == pytest.approx(60e9 / 33, rel=0.02)


def test_the_plan_is_of_the_median_run() -> None:
    runs = [replace(RUN, user_ns=ns) for ns in (10, 1_000_000_000, 90_000_000_000)]
    assert plan_for(runs).most == 64


SIDES: tuple[Side, ...] = ("load", "store", "fetch")


def test_totals_leave_out_processes_without_counts() -> None:
    assert total_counts([process(1000), killed(), process(500)]) == total_counts(
        [process(500), process(1000)]
    )
    assert total_counts([process(7)])[BASE, "load"].stlb_misses == 7


def test_splintered_pages_miss_as_base_pages_and_are_priced_by_their_pieces() -> None:
    split = splintered(process(1000), BASE, HUGE)
    assert split.counts is not None
    for side in SIDES:
        assert split.counts[HUGE, side] == split.counts[BASE, side]
    costs = page_costs(of_this_machine(), HUGE, BASE, 8192)
    assert (costs.page_size_bytes, costs.footprint_entries) == (HUGE, 2)
    gone = killed()
    assert splintered(gone, BASE, HUGE) is gone


def test_footprint_is_the_largest_process_s() -> None:
    small = replace(process(), touched=Touched(10, 1, 5))
    assert footprint_pages([small, process()]) == 65736
    assert footprint_pages([small, killed()]) == 15
    with pytest.raises(ValueError, match="empty"):
        footprint_pages([killed()])
