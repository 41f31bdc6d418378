# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes with the slides' patterns, whose accesses are sampled: made up, with known answers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tlbcost.numa.accesses import Ints
from tlbcost.numa.watch.evidence import Evidence, Window, pages_of

FOLD, NODES = 512, 4
FIRST = 1 << 20  # a base page number, the first of a huge page


@dataclass
class Process:
    """Base pages from FIRST on: the node of each, and whether it is part of a huge page."""

    node: Ints
    huge: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    @classmethod
    def of(cls, node: list[int], *, huge: bool = True) -> Process:
        """One node for each huge page."""
        homes = np.repeat(np.array(node, dtype=np.int64), FOLD)
        return cls(homes, np.full(len(homes), huge))

    def window(self, at_s: float, node: int, pages: Ints, walks: float | None = None) -> Window:
        """Accesses to these offsets, as often as each is named."""
        seen, counts = np.unique(pages, return_counts=True)
        l2 = None if walks is None else 10000
        return Window(
            at_s,
            node,
            node,
            FIRST + seen,
            counts,
            l2,
            None if walks is None else int(walks * 10000),
        )

    def evidence(self, windows: list[Window]) -> Evidence:
        page = pages_of(windows)
        at = page - FIRST
        return Evidence(windows, page, self.node[at], self.huge[at], [1 / NODES] * NODES, FOLD)


def conjugate_gradient(process: Process, at_s: float, rounds: int = 2) -> list[Window]:
    """A third of the accesses go to one huge page (the first), the rest to each one's own."""
    own = (len(process.node) - FOLD) // NODES
    windows = []
    for i in range(rounds * NODES):
        node = i % NODES
        vector = process.random.integers(0, FOLD, 300)
        matrix = FOLD + node * own + process.random.integers(0, own, 600)
        windows.append(process.window(at_s + i / 100, node, np.concatenate([vector, matrix])))
    return windows


BLOCK = 448  # base pages: 1.75 MiB


def blocks(process: Process, at_s: float, rounds: int = 2) -> list[Window]:
    """Blocks smaller than a huge page belong to the nodes in turn: false sharing."""
    windows = []
    number = np.arange(len(process.node))
    for i in range(rounds * NODES):
        node = i % NODES
        own = number[number // BLOCK % NODES == node]
        mine = process.random.choice(own, 4000)
        others = process.random.choice(number, 500)
        windows.append(process.window(at_s + i / 100, node, np.concatenate([mine, others])))
    return windows


def graph(process: Process, at_s: float, rounds: int = 2, walks: float = 0.36) -> list[Window]:
    """Everybody reads everywhere."""
    return [
        process.window(
            at_s + i / 100, i % NODES, process.random.integers(0, len(process.node), 900), walks
        )
        for i in range(rounds * NODES)
    ]


def parts(
    process: Process, at_s: float, shift: int = 0, rounds: int = 2, walks: float | None = None
) -> list[Window]:
    """Each node reads a part of its own, that of the node `shift` further on."""
    own = len(process.node) // NODES
    return [
        process.window(
            at_s + i / 100,
            i % NODES,
            (i + shift) % NODES * own + process.random.integers(0, own, 900),
            walks,
        )
        for i in range(rounds * NODES)
    ]
