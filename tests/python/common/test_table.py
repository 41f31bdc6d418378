# SPDX-License-Identifier: GPL-2.0-or-later
"""Are tables read as they were written, and defects named by file and line?"""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.tree import TREE
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.common import formats
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import TableFormat, count, format_table, number, parse_table, read_table

TEST = TableFormat("test", 1, ("a", "b"))
GOOD = "# tlbcost test 1\n# name: a value\na\tb\n1\tNA\n# end: 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x:1: not a tlbcost test table of version 1"),
        ("garbage\0", "x:1: not a tlbcost"),
        (GOOD.replace(" 1\n# name", " 2\n# name"), "x:1: not a tlbcost"),
        (GOOD.replace("# end: 1\n", ""), "x: truncated: no '# end: 1' line"),
        (GOOD.replace("end: 1", "end: 2"), "x: truncated"),
        (GOOD.replace("1\tNA", "1"), "x:4: 1 cells, expected 2"),
        (GOOD.replace("a\tb", "a\tc"), "x:3: columns are a c, expected a b"),
        (GOOD.replace("# name:", "# Name"), "x:2: not a '# key: value' line"),
    ],
)
def test_defects_are_named(text: str, message: str) -> None:
    with pytest.raises(TlbcostError) as caught:
        parse_table(text, "x", TEST)
    assert str(caught.value).startswith(message)


def test_a_partial_table_is_accepted_on_request() -> None:
    text = GOOD.replace("# end: 1\n", "")
    assert not parse_table(text, "x", TEST, partial=True).complete


def test_a_missing_key_is_named() -> None:
    with pytest.raises(TlbcostError, match="x: no '# other:' line"):
        parse_table(GOOD, "x", TEST).key("other")


@pytest.mark.parametrize("text", ["-1", "1.5", "", "x", "²", str(2**64)])
def test_what_is_not_a_count(text: str) -> None:
    with pytest.raises(ValueError, match="not a count"):
        count(text)


def test_absent_is_not_zero() -> None:
    assert count(None) is None
    assert number(None) is None
    assert count("0") == 0


@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_numbers_are_finite(text: str) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        number(text)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.none() | st.floats(-1e9, 1e9))))
def test_what_is_written_is_read(rows: list[tuple[int, float | None]]) -> None:
    text = format_table(TEST, {"name": "v"}, rows)
    table = parse_table(text, "x", TEST)
    assert len(table.rows) == len(rows)
    for (a, b), (read_a, read_b) in zip(rows, table.rows, strict=True):
        assert count(read_a) == a
        value = number(read_b)
        assert (value is None) == (b is None)
        if value is not None and b is not None:
            assert value == pytest.approx(b, rel=1e-5)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="No such file"):
        read_table(tmp_path / "none", TEST)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(TlbcostError, match="not a tlbcost test table"):
        read_table(tmp_path / "binary", TEST)


@pytest.mark.parametrize("each", formats.ALL, ids=lambda each: each.name)
def test_the_document_has_every_table_and_its_columns(each: TableFormat) -> None:
    text = (TREE / "doc" / "format.md").read_text(encoding="utf-8")
    _, found, after = text.partition(f"\n## {each.name} {each.version} ")
    assert found
    section = after.partition("\n## ")[0]
    for column in each.columns:
        assert f"`{column}`" in section
