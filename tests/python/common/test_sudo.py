# SPDX-License-Identifier: GPL-2.0-or-later
"""Who called sudo?"""

from __future__ import annotations

import os

import pytest
from tlbcost.common import sudo


def test_sudo_names_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setenv("SUDO_GID", "100")
    found = sudo.calling_user()
    assert found is not None
    assert (found.uid, found.gid) == (1000, 100)
    monkeypatch.setenv("SUDO_UID", "0")
    assert sudo.calling_user() is None
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert sudo.calling_user() is None
