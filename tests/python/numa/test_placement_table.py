# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the simulator's tables of placement read, and refused where they are damaged?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.placement import Row, image, write
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.table import Cell
from tlbcost.numa.placement_table import PlacementPlan, cache_within, read_placements


def test_tables_are_read(tmp_path: Path) -> None:
    found = image(tmp_path, [(5, 1, [3, 4]), (6, 2, [1])], [(5, 1, "huge"), (6, 2, "other")])
    assert found.pages.tolist() == [5, 6]
    assert found.accesses[0].tolist() == [3, 4, 0, 0, 0, 0, 0, 0]
    assert found.touched_kinds.tolist() == [0, 2]
    assert (found.l2_misses, found.walk_l2_misses, found.intervals) == (100, 4, 2)


def test_an_image_that_did_not_finish_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, [], [], state="running")
    assert read_placements(tmp_path) == ()


def test_pages_that_were_not_all_noted_are_no_result(tmp_path: Path) -> None:
    write(tmp_path, [], [], state="failed")
    with pytest.raises(TlbcostError, match="could not note all its pages") as raised:
        read_placements(tmp_path)
    assert raised.value.exit_code == TOOL_FAILED


@pytest.mark.parametrize(
    ("rows", "touches", "changed"),
    [
        ([(5, 1, [-3])], [], {}),
        ([(5, 1, [3])], [(5, 1, "wood")], {}),
        ([(5, 1, [None])], [], {}),
        ([(5, 1, [3])], [], {"intervals": "many"}),
        ([(1 << 70, 1, [3])], [], {}),
    ],
)
def test_garbage_is_refused_by_name(
    tmp_path: Path,
    rows: list[Row],
    touches: list[tuple[int, int, str]],
    changed: dict[str, Cell],
) -> None:
    write(tmp_path, rows, touches, **changed)
    with pytest.raises(TlbcostError, match=r"7\.0\.tsv: "):
        read_placements(tmp_path)


@pytest.mark.parametrize(
    ("n_bytes", "cache"),
    [(1 << 20, (1 << 20, 16)), (300 << 10, (288 << 10, 18)), (64, (64, 1)), (0, (0, 0))],
)
def test_caches_have_sets_of_a_power_of_two(n_bytes: int, cache: tuple[int, int]) -> None:
    assert cache_within(n_bytes) == cache
    lines = cache[0] // 64
    assert lines == 0 or (lines // cache[1]).bit_count() == 1


def test_the_sample_is_asked_for() -> None:
    plan = PlacementPlan(
        period_references=4000, warm_references=250, measured_references=750,
        l2_bytes=1 << 20, l3_share_bytes=0, caches_source="made up",
    )  # fmt: skip
    assert plan.options[:2] == ["--placement=4000:250:750", "--placement-caches=1048576:16,0:0"]


@pytest.mark.parametrize("kept", [1, 2])
def test_a_table_that_was_cut_short_is_refused_or_left_out(tmp_path: Path, kept: int) -> None:
    write(tmp_path, [(5, 1, [3]), (6, 1, [3])], [(5, 1, "huge")])
    path = tmp_path / "placement.7.0.tsv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # A row is missing.
    path.write_text("".join([*lines[:-2], lines[-1]]), encoding="utf-8")
    with pytest.raises(TlbcostError, match="cells are missing"):
        read_placements(tmp_path)
    # The end is: its writer was killed.
    path.write_text("".join(lines[:-kept]), encoding="utf-8")
    assert read_placements(tmp_path) == ()


def test_first_touches_that_were_cut_short_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [(5, 1, [3])], [(5, 1, "huge")])
    path = tmp_path / "touches.7.0.tsv"
    path.write_text(path.read_text(encoding="utf-8").replace("# end: 1\n", ""), encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"touches\.7\.0\.tsv: truncated"):
        read_placements(tmp_path)
