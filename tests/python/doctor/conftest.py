# SPDX-License-Identifier: GPL-2.0-or-later
"""The made-up computer that the doctor is tried on."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.host import Host, made_host


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    """Everything is in place on it."""
    return made_host(monkeypatch, tmp_path)
