# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may read the counters?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from builders.counting import write_rights
from tlbcost.counters import pmu
from tlbcost.counters.pmu import Rights

INITIAL = "         0          0 4294967295\n"


@pytest.mark.parametrize(
    ("status", "uid_map", "paranoid", "expected"),
    [
        ("CapEff:\t000001ffffffffff\nSeccomp:\t0\n", INITIAL, "2", Rights(2, True, False)),
        # CAP_PERFMON alone, and CAP_SYS_ADMIN alone.
        ("CapEff:\t0000004000000000\nSeccomp:\t0\n", INITIAL, "4", Rights(4, True, False)),
        ("CapEff:\t0000000000200000\nSeccomp:\t0\n", INITIAL, "-1", Rights(-1, True, False)),
        ("CapEff:\t0000000000000000\nSeccomp:\t2\n", INITIAL, "1", Rights(1, False, True)),
        # Root of a container is none.
        ("CapEff:\t000001ffffffffff\nSeccomp:\t2\n", "0 100000 65536\n", "2",
         Rights(2, False, True)),
        ("", None, None, Rights(None, True, False)),
        ("", None, "two", Rights(None, True, False)),
    ],
)  # fmt: skip
def test_rights_are_read(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    status: str,
    uid_map: str | None,
    paranoid: str | None,
    expected: Rights,
) -> None:
    write_rights(tmp_path, status, uid_map, paranoid)
    monkeypatch.setenv("TLBCOST_ROOT", str(tmp_path))
    monkeypatch.setattr(pmu, "is_root", lambda: True)
    assert pmu.rights() == expected


def test_this_process_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TLBCOST_ROOT", raising=False)
    own = pmu.rights()
    if os.getuid() != 0:
        assert not own.privileged
    may = pmu.user_may_count()
    if own.paranoid is not None and own.paranoid <= 2 and not own.filtered:
        assert may is True
