# SPDX-License-Identifier: GPL-2.0-or-later
"""Where are the pages of a live process, and how large? Or where would they be on more nodes?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tlbcost.numa.accesses import Ints
from tlbcost.numa.watch.decide import Action
from tlbcost.numa.watch.evidence import Window
from tlbcost.numa.watch.process import Process, huge_regions, nodes_of

Bools = NDArray[np.bool_]


class Places(Protocol):
    """`find`: of these pages, which were seen in these windows, the node (-1: none) and whether
    they are part of a huge page.
    """

    def find(self, windows: Sequence[Window], page: Ints) -> tuple[Ints, Bools]: ...


@dataclass(slots=True)
class RealPlaces:
    """As the kernel says."""

    process: Process
    fold: int
    page_bytes: int

    def find(self, windows: Sequence[Window], page: Ints) -> tuple[Ints, Bools]:  # noqa: ARG002
        """Raises TlbcostError, 4, if it does not."""
        node = nodes_of(self.process, page, self.page_bytes)
        return node, huge_regions(self.process, page, self.fold, self.page_bytes)


@dataclass(slots=True)
class AssumedPlaces:
    """Nodes that do not exist: each page is on the node that was seen to use it most, in place of
    the one that touched it first, until it would have been moved. What would have been split
    counts as split. `moved`: base pages, and -1 - the number of huge ones.
    """

    process: Process
    fold: int
    page_bytes: int
    moved: dict[int, int] = field(default_factory=dict)
    split: set[int] = field(default_factory=set)

    def find(self, windows: Sequence[Window], page: Ints) -> tuple[Ints, Bools]:
        """Raises TlbcostError, 4, if the kernel does not report page sizes."""
        there = nodes_of(self.process, page, self.page_bytes) >= 0
        huge = huge_regions(self.process, page, self.fold, self.page_bytes)
        split = np.isin(page // self.fold, np.array(sorted(self.split), dtype=np.int64))
        # A piece of what would have been split is where that was, unless it moved.
        _, unit = np.unique(np.where(huge, -1 - page // self.fold, page), return_inverse=True)
        unit = unit.reshape(-1)
        used = np.zeros((unit.max(initial=-1) + 1, self.process.nodes), dtype=np.int64)
        for window in windows:
            at = np.searchsorted(page, window.pages)
            np.add.at(used[:, window.node], unit[at], window.counts)
        node = used.argmax(axis=1)[unit] if len(page) else page
        for index, number in enumerate(page.tolist()):
            whole = self.moved.get(-1 - number // self.fold, node[index])
            if huge[index] and not split[index]:
                node[index] = whole
            else:
                node[index] = self.moved.get(number, whole if split[index] else node[index])
        return np.where(there, node, -1), huge & ~split

    def suppose(self, action: Action) -> None:
        """It was done."""
        if action.kind in ("split", "split_hot"):
            self.split.update(int(region) for region in action.regions)
        if action.kind == "promote":
            self.split.difference_update(int(region) for region in action.regions)
        for page, to in zip(action.pages.tolist(), action.to.tolist(), strict=True):
            self.moved[page] = to
            if page % self.fold == 0 and page // self.fold not in self.split:
                self.moved[-1 - page // self.fold] = to
