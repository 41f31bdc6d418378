# SPDX-License-Identifier: GPL-2.0-or-later
"""What do huge pages save a program whose share of cycles in page walks was counted?

The constants are fitted to the single-socket pairs of data/published by `make accuracy-published`,
which also compares them with other forms; see doc/published-gains.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tlbcost.common.interval import Interval

# Of the walk share on base pages: the mean of gain over share, and how far the gain was from that
# line, over the root of the share, in nine cases of ten from machines that the line was not
# fitted to.
SHARE_SLOPE = 0.621
SHARE_SPREAD = 0.245
# The same for the walk cycles that huge pages eliminated, as a share of the base run; the slope is
# that of least absolute errors.
REMOVED_SLOPE = 0.904
REMOVED_SPREAD = 0.208


def expected_from_share(share: Interval | float) -> Interval:
    """The gain on huge pages as a fraction of the base run, from its walk share alone.

    `share`, 0 to 1, of cycles with a page walk in progress on base pages. The lower end may be
    negative, as some programs lose. The upper end is at most the share, which is all that can be
    saved: 1 of the 22 pairs gained over half a percentage point more than that. Raises ValueError
    if the share is not within 0 and 1.
    """
    within = _checked(share)
    low, high = _band(within, SHARE_SLOPE, SHARE_SPREAD)
    return Interval(SHARE_SLOPE * within.value, low, min(high, within.high))


def expected_with_remaining(share: Interval | float, remaining: float) -> Interval:
    """The same if it is known what part of the walk cycles remains on huge pages.

    `remaining`: walk cycles on huge pages over those on base pages, by a simulation of both; above
    1 if huge pages walk more. Raises ValueError if the share is not within 0 and 1, or `remaining`
    is below 0.
    """
    within = _checked(share)
    if not 0 <= remaining < math.inf:
        raise ValueError(f"not a part of the walk cycles: {remaining}")
    went = 1 - remaining
    ends = sorted((within.low * went, within.high * went))
    low, high = _band(Interval(within.value * went, *ends), REMOVED_SLOPE, REMOVED_SPREAD)
    return Interval(REMOVED_SLOPE * within.value * went, low, min(high, within.high))


def _checked(share: Interval | float) -> Interval:
    within = share if isinstance(share, Interval) else Interval(share, share, share)
    if not 0 <= within.low <= within.high <= 1:
        raise ValueError(f"not a share: {within}")
    return within


def _band(over: Interval, slope: float, spread: float) -> tuple[float, float]:
    """The lowest and the highest gain over an interval, at slope * x -+ spread * sqrt(|x|)."""
    # On each side of zero the band turns at this distance.
    turn = (spread / (2 * slope)) ** 2
    points = [over.low, over.high]
    points += [x for x in (-turn, 0.0, turn) if over.low < x < over.high]

    def edge(sign: float) -> Callable[[float], float]:
        return lambda x: slope * x + sign * spread * math.sqrt(abs(x))

    return min(map(edge(-1.0), points)), max(map(edge(1.0), points))
