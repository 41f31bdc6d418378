# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of a process that cannot be looked at?"""

from __future__ import annotations

import pytest
from builders.answer import GEOMETRY
from tlbcost.common.errors import TlbcostError
from tlbcost.memory.areas import reaches_of
from tlbcost.memory.process import look


def test_a_process_that_is_not_there() -> None:
    with pytest.raises(TlbcostError, match="there is no process") as raised:
        look(2**31 - 2, reaches_of(GEOMETRY))
    assert raised.value.exit_code == 1
