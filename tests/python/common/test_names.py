# SPDX-License-Identifier: GPL-2.0-or-later
"""Are names that hold anything shown on one line, and read again as they were?"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.common import document, names
from tlbcost.common.table import TableFormat, format_table, read_table

ODD = os.fsdecode(b"a\xff\n\\x41 \xc3\xa9")
TEST = TableFormat("test", 1, ("word",))


class _Part(document.Part, frozen=True, kw_only=True):
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
    found = json.loads(document.to_json(_Part(names=(ODD, "plain"))))
    assert found["names"] == ["a\\xff\n\\x41 é", "plain"]
