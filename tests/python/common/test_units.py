# SPDX-License-Identifier: GPL-2.0-or-later
"""How are figures, names that hold anything, documents and the spread of runs written?"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.common import names, units
from tlbcost.common.document import Part, part_of, to_json
from tlbcost.common.formats import TableFormat, format_table, read_table
from tlbcost.common.units import Interval, centre, share_interval, spread_fraction


def test_ends_that_round_to_nothing_are_said_once() -> None:
    assert units.range_of(Interval(0, 0, 1e-4)) == "about 0"
    assert units.range_of(Interval(0, -1e-4, 1e-4)) == "about 0"
    assert units.range_of(Interval(0, 0, 0)) == "0 %"
    assert units.range_of(Interval(0.1, -1e-4, 0.2)) == "about 0 to 20 %"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.size(4096), "4 KiB"), (units.size(3 << 29), "1.5 GiB"), (units.size(7), "7 B"),
        (units.time(1_234_000_000), "1.23 s"), (units.time(-3_000_000), "-3 ms"),
        (units.time(0), "0 s"), (units.time(12.34), "12.3 ns"),
        (units.times(197e6, 238.4e6), "197-238 ms"),
        (units.count(59_800_000), "59.8 M"), (units.count(12_345), "12,345"),
        (units.percent(0.1284), "13 %"), (units.percent(0.0123), "1.2 %"),
        (units.percent(0), "0 %"), (units.percent(0.0001), "about 0"),
        (units.percent(-0.0001), "about 0"), (units.speedup(1.253), "1.25x"),
        (units.speedup(None), "no limit"),
    ],
)  # fmt: skip
def test_units(shown: str, expected: str) -> None:
    assert shown == expected


def test_spread() -> None:
    assert spread_fraction([10, 12, 11]) == pytest.approx(2 / 11)
    assert spread_fraction([10]) is None


def test_centre_is_geometric_above_zero_only() -> None:
    assert centre(4, 9) == 6
    assert centre(-2, 4) == 1


def test_wilsons_interval() -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3: 81 of 263, and 0 of 20.
    assert share_interval(81 / 263, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert share_interval(0.0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)


ODD = os.fsdecode(b"a\xff\n\\x41 \xc3\xa9")
TEST = TableFormat("test", 1, ("word",))


class _Part(Part, frozen=True, kw_only=True):
    names: tuple[str, ...]


@given(st.binary().map(os.fsdecode))
def test_a_table_s_names_are_text_on_one_line_and_read_as_they_were(name: str) -> None:
    written = names.written(name)
    written.encode()
    assert not set(written) & set("\n\r\t")
    assert names.read(written) == name


def test_names_go_through_a_table(tmp_path: Path) -> None:
    file = tmp_path / "table"
    file.write_text(format_table(TEST, {"name": ODD}, [(ODD,)]), encoding="utf-8")
    table = read_table(file, TEST)
    assert table.key("name") == ODD
    assert table.rows == ((ODD,),)


def test_bytes_that_another_writer_left_in_a_table_are_read(tmp_path: Path) -> None:
    file = tmp_path / "table"
    file.write_bytes(b"# tlbcost test 1\n# name: a\xff\\x0a\nword\n# end: 0\n")
    assert read_table(file, TEST).key("name") == os.fsdecode(b"a\xff\n")


def test_what_is_shown() -> None:
    assert names.shown(ODD) == "a\\xff\\x0a\\x41 é"
    assert names.of_kernel("/a\\012b") == "/a\nb"


@pytest.mark.parametrize("words", [["echo", ODD], ["echo", "it's", ""], ["echo", "a b"]])
def test_a_command_line_is_what_a_shell_takes(words: list[str]) -> None:
    line = names.command_line(["printf", "%s;", *words])
    said = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert said == b"".join(os.fsencode(word) + b";" for word in words)


def test_json_is_text() -> None:
    found = json.loads(to_json(_Part(names=(ODD, "plain"))))
    assert found["names"] == ["a\\xff\n\\x41 é", "plain"]


class _Cost(Part):
    walk_ns: float


class _Sizes(Part):
    small_bytes: int
    large_bytes: int


def test_a_figure_of_numpy_is_a_figure() -> None:
    assert json.loads(to_json(_Cost(walk_ns=np.float64(1.5)))) == {"walk_ns": 1.5}


def test_what_is_no_figure_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        to_json({"walk_ns": object()})


def test_a_part_has_the_attributes_of_its_fields_names_but_for_others() -> None:
    source = SimpleNamespace(small_bytes=1, large_bytes=2, colour="red")
    assert part_of(_Sizes, source) == _Sizes(small_bytes=1, large_bytes=2)
    other = part_of(_Sizes, source, large_bytes=3)
    assert (other.small_bytes, other.large_bytes) == (1, 3)


def test_a_field_without_a_value_is_refused() -> None:
    with pytest.raises(TypeError, match="large_bytes"):
        part_of(_Sizes, SimpleNamespace(small_bytes=1))
