# SPDX-License-Identifier: GPL-2.0-or-later
"""How are made-up examples tried, so that a test fails for what it tests alone?"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Neither an example nor the making of one has a time limit: both take longer on a busy machine.
# The same examples each time, unless one looks for new ones.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize="TLBCOST_FUZZ_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")
