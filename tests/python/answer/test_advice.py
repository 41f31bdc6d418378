# SPDX-License-Identifier: GPL-2.0-or-later
"""Which commands are given to type?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.answer import (
    MACHINE,
    altered,
    estimated,
)
from tlbcost.answer.advice import next_steps


def test_next_steps_depend_on_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlbcost.system.hints.as_root", lambda command: f"sudo {command}")
    monkeypatch.setattr("tlbcost.system.hints.write_setting", lambda value, path: f"{value}>{path}")
    c = estimated()
    assert next_steps(estimated(0)) == ["# Nothing to configure for this program."]

    never = altered(c, machine=replace(MACHINE, thp_mode="never"))
    assert "madvise>/sys/kernel/mm/transparent_hugepage/enabled" in next_steps(never)

    none = altered(c, machine=replace(MACHINE, thp_mode=None))
    assert "sudo sysctl vm.nr_hugepages=138" in next_steps(none)
    assert any("hugetlb=2 ./app" in step for step in next_steps(none))

    old = altered(c, surroundings=replace(c.given.surroundings, glibc=(2, 31)))
    assert any("glibc 2.31" in step for step in next_steps(old))
    assert not any("GLIBC_TUNABLES" in step for step in next_steps(old))

    set_already = altered(
        c, surroundings=replace(c.given.surroundings, glibc_tunables="a.b=1:glibc.malloc.hugetlb=0")
    )
    assert any("=a.b=1:glibc.malloc.hugetlb=1 ./app" in step for step in next_steps(set_already))
