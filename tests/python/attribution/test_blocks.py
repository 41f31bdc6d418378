# SPDX-License-Identifier: GPL-2.0-or-later
"""Which places of a program's memory give most for the memory that huge pages add there?"""

from builders.tree import there
from tlbcost.attribution.document import curve_of, curve_sentence
from tlbcost.simulator.memory_tables import Block

HUGE = 2 << 20


def test_dense_and_hot_comes_first_and_sparse_and_cold_last() -> None:
    blocks = [
        *[Block(4096, 10, 0)] * 10,
        *[Block(HUGE, 900, 0)] * 2,
        *[Block(HUGE // 2, 600, 0)] * 3,
        *[Block(HUGE, 0, 0)] * 5,
    ]
    curve = there(curve_of(blocks))
    assert (curve.blocks, curve.growth_bytes) == (20, 3 * HUGE // 2 + 10 * (HUGE - 4096))
    # 1,800 and 600 a piece of 3,700.
    assert (curve.knee.blocks, curve.knee.growth_bytes) == (4, HUGE)
    assert curve.points[1].gain_fraction == 1800 / 3700
    assert [point.blocks for point in curve.points] == list(range(1, 21))
    assert curve.points[-1].gain_fraction == 1
    assert curve_sentence(curve) == (
        "Of 20 places of 2 MiB with page walks, 4 have 81 % of what huge pages save there, and add "
        "2 MiB of the 23 MiB that all would add."
    )


def test_where_no_walk_is_removed_each_gets_cheaper() -> None:
    curve = there(curve_of([Block(HUGE, 100 * n, 100 * n) for n in range(1, 42)]))
    assert curve.points[-1].blocks == 41
    assert len(curve.points) <= 20
    # From 41 down: 21 of them are 66 of 86 hundreds and more.
    assert curve.knee.blocks == 21
    assert curve_sentence(curve).endswith("; none adds memory.")


def test_of_little_nothing_is_said() -> None:
    assert curve_of([Block(HUGE, 1000, 0)] * 7) is None
    assert curve_of([Block(HUGE, 10, 0)] * 50) is None
    assert curve_of([]) is None
