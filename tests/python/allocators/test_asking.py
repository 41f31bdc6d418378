# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a malloc named that asks for huge pages by itself, and what forbids it?"""

from __future__ import annotations

import pytest
from tlbcost.allocators import recognise
from tlbcost.allocators.recognise import Malloc, Program, asking
from tlbcost.system import machine


@pytest.mark.parametrize(
    ("malloc", "words"),
    [(None, None), (Malloc("glibc", "libc.so.6"), None),
     (Malloc("glibc", "libc.so.6", None, True), "GLIBC_TUNABLES=glibc.malloc.hugetlb=0 forbids"),
     (Malloc("mimalloc", None, None, True), "MIMALLOC_ALLOW_THP=0 forbids")],
)  # fmt: skip
def test_what_asks_by_itself_and_what_forbids_it(
    monkeypatch: pytest.MonkeyPatch, malloc: Malloc | None, words: str | None
) -> None:
    monkeypatch.setattr(recognise, "program_of", lambda path, _: Program(path, malloc))
    found = asking("/opt/app", [])
    assert (found is None) == (words is None)
    assert (words or "") in (found or "")
    assert asking(None, []) is None


@pytest.mark.parametrize(
    ("architecture", "version", "asks"),
    [("aarch64", (2, 43), True), ("aarch64", (2, 42), False), ("x86_64", (2, 43), False),
     ("aarch64", None, False)],
)  # fmt: skip
def test_which_glibc_asks_by_itself(
    monkeypatch: pytest.MonkeyPatch, architecture: str, version: tuple[int, int] | None, asks: bool
) -> None:
    monkeypatch.setattr("platform.machine", lambda: architecture)
    monkeypatch.setattr(machine, "glibc_version", lambda: version)
    assert machine.glibc_asks() == asks
