# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the picture fit every terminal, and show what is not known as such?"""

from __future__ import annotations

import io
from typing import get_args

import pytest
from builders.live import document, row, unknown
from tlbcost.live.document import in_order
from tlbcost.live.keys import SortKey
from tlbcost.live.view import KEYS, picture, print_once

ROWS = [row(f"process-{number}", pid=number) for number in range(1, 60)]


@pytest.mark.parametrize("width", [1, 20, 40, 80, 200])
@pytest.mark.parametrize("height", [1, 5, 24])
def test_it_fits(width: int, height: int) -> None:
    lines = picture(document(*ROWS), "memory", width, height).plain.split("\n")
    assert max(map(len, lines)) <= max(width, 12)
    # Three lines above, the titles, a row and the keys, however low it is.
    assert len(lines) == max(height, 6)


def test_twenty_columns_have_names_and_memory() -> None:
    lines = picture(document(*ROWS), "memory", 20, 10).plain.split("\n")
    assert lines[3].split() == ["process", "memory"]
    assert lines[4].split() == ["process-1", "10", "MiB"]


def test_eighty_columns_have_all_but_one() -> None:
    lines = picture(document(*ROWS), "memory", 80, 10).plain.split("\n")
    titles = lines[3]
    for title in ("pid", "process", "memory", "on huge", "eligible", "x reach", "faults/s", "age"):
        assert title in titles
    assert lines[4].split() == [
        *("1", "process-1", "10", "MiB", "2", "MiB", "6", "MiB", "2.00", "12", "1", "s")
    ]
    assert lines[-1].startswith("54 more; q quit")


def test_what_may_not_be_read_is_na_and_counted() -> None:
    text = picture(document(unknown("secret"), unreadable=1), "memory", 100, 10).plain
    line = next(line for line in text.split("\n") if "secret" in line)
    assert line.split() == ["12", "secret", "10", "MiB", *["NA"] * 6]
    assert "1 of this host's may not be read (NA)" in text


def test_ages_are_shown() -> None:
    text = picture(document(*ROWS), "memory", 120, 10).plain
    assert "pages read up to 1 s ago, eligible read up to 90 s ago" in text


def test_a_name_cannot_command_the_terminal() -> None:
    text = picture(document(row("\x9b31m\u202e\u4f60" + "x" * 300)), "memory", 80, 10).plain
    assert all(" " <= character <= "~" or character == "\n" for character in text)


def test_once_has_all_rows_and_no_keys() -> None:
    file = io.StringIO()
    print_once(document(*ROWS), file, sort="memory")
    text = file.getvalue()
    assert text.count("process-") == len(ROWS)
    assert "q quit" not in text


@pytest.mark.parametrize("key", get_args(SortKey))
def test_what_is_not_known_is_last(key: SortKey) -> None:
    rows = [unknown("u"), row("small", pid=3, memory_bytes=1), row("large", pid=4, reach_ratio=9.0)]
    ordered = [each.name for each in in_order(rows, key)]
    if key in ("memory", "pid"):
        assert ordered[-1] == ("small" if key == "memory" else "u")
    else:
        assert ordered[-1] == "u"
    assert ordered.index("large") < ordered.index("small") or key in ("pid",)


def test_each_key_has_a_letter() -> None:
    assert set(KEYS.values()) == set(get_args(SortKey))
    assert "q" not in KEYS
