# SPDX-License-Identifier: GPL-2.0-or-later
"""Is it said what works instead, where programs cannot be traced onto huge pages?"""

from __future__ import annotations

import platform

import pytest
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.thp.program import run_program


def test_on_another_cpu_mallocs_own_switch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(TlbcostError, match="on x86-64 only, not on aarch64") as error:
        run_program(["./app"])
    assert error.value.exit_code == CANNOT_MEASURE
    assert "glibc.malloc.hugetlb=1" in (error.value.hint or "")
