# SPDX-License-Identifier: GPL-2.0-or-later
"""Where are pages on nodes that do not exist, before and after they would have been moved?"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tlbcost.numa.watch import process
from tlbcost.numa.watch.decide import Action, Kind
from tlbcost.numa.watch.evidence import Window
from tlbcost.numa.watch.process import AssumedPlaces

FOLD = 512
NONE = np.zeros(0, dtype=np.int64)
# A huge page that node 1 uses most, another one of node 2, and a base page of node 3.
PAGES = np.array([0, 1, 511, 512, 4096])


@pytest.fixture
def assumed(monkeypatch: pytest.MonkeyPatch) -> AssumedPlaces:
    monkeypatch.setattr(process, "nodes_of", lambda _, page, __: np.zeros_like(page))
    monkeypatch.setattr(process, "huge_regions", lambda _, page, fold, __: page < 2 * fold)
    return AssumedPlaces(SimpleNamespace(nodes=4), FOLD, 4096)  # type: ignore[arg-type]


def nodes(of: AssumedPlaces) -> list[int]:
    seen = [(0, [0], [3]), (1, [1, 511], [2, 2]), (2, [512], [1]), (3, [4096], [1])]
    windows = [
        Window(0.0, node, node, np.array(pages), np.array(counts)) for node, pages, counts in seen
    ]
    node, huge = of.find(windows, PAGES)
    assert [page // FOLD in of.split or page == 4096 for page in PAGES] == [not h for h in huge]
    return [int(each) for each in node]


def action(kind: Kind, pages: list[int], to: list[int], regions: list[int]) -> Action:
    return Action(kind, "", np.array(pages), np.array(to), np.array(regions, dtype=np.int64))


def test_a_page_is_where_it_is_used_most(assumed: AssumedPlaces) -> None:
    assert nodes(assumed) == [1, 1, 1, 2, 3]


def test_a_huge_page_moves_whole(assumed: AssumedPlaces) -> None:
    assumed.suppose(action("migrate", [0, 4096], [2, 0], []))
    assert nodes(assumed) == [2, 2, 2, 2, 0]


def test_pieces_move_alone_and_the_rest_stays(assumed: AssumedPlaces) -> None:
    assumed.suppose(action("split", [0], [0], [0]))
    assert nodes(assumed) == [0, 1, 1, 2, 3]


def test_what_is_made_huge_again_is_whole(assumed: AssumedPlaces) -> None:
    assumed.suppose(action("split", [0], [0], [0]))
    assumed.suppose(action("promote", [], [], [0]))
    assert nodes(assumed) == [1, 1, 1, 2, 3]


def test_no_windows_have_no_pages(assumed: AssumedPlaces) -> None:
    node, huge = assumed.find([], NONE)
    assert len(node) == len(huge) == 0
