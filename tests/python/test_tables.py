# SPDX-License-Identifier: GPL-2.0-or-later
"""Is any word cut in 80 columns? Every table that can be printed from data/ alone."""

from __future__ import annotations

import pytest
from builders.tree import TREE
from tlbcost.__main__ import main
from tlbcost.common import console

MACHINES = sorted((path.stem for path in (TREE / "data/machines").glob("*.tsv")), key=len)
LISTS = [
    ["machines"],
    *(["machines", name] for name in MACHINES),
    *(["machines", "--compare", name, MACHINES[-1]] for name in MACHINES),
    ["events", "--list"],
    *(["events", "--pmu", path.stem] for path in (TREE / "data/events").glob("*.tsv")),
    *(
        ["validate", *details, "--from", str(path)]
        for path in (TREE / "data/samples").glob("*/trials.tsv")
        for details in ([], ["--details"])
    ),
]


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_no_word_is_cut(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = []
    for width in (80, 400):
        monkeypatch.setattr(console, "width_of", lambda _, width=width: width)
        assert main(words) == 0
        printed.append(capsys.readouterr().out)
    narrow, wide = printed
    assert max(map(len, narrow.splitlines())) <= 80
    assert set(narrow.split()) <= set(wide.split())
