# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine with four nodes boots once, at the first question."""

from __future__ import annotations

from typing import Any

import pytest
from four_nodes import results, why_not


@pytest.fixture(scope="session")
def machine() -> dict[str, Any]:
    """What its steps found."""
    why = why_not()
    if why is not None:
        pytest.skip(why)
    return results()
