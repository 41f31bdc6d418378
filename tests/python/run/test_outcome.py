# SPDX-License-Identifier: GPL-2.0-or-later
"""Is it said how a run ended?"""

from __future__ import annotations

import signal

from tlbcost.run.outcome import Outcome


def test_a_memory_limit_is_named() -> None:
    killed = Outcome(None, "", 400 << 20, None, signal.SIGKILL, None)
    assert killed.describe() == "was killed at its memory limit (400 MiB, cgroup)"
    assert killed.code == 137
    other = Outcome(None, "", None, None, signal.SIGKILL, None)
    assert other.describe() == "was killed by SIGKILL"
