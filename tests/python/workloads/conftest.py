# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the suite's own programs: long, as only a change of workloads/ needs them."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.long)
