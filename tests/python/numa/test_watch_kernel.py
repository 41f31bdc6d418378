# SPDX-License-Identifier: GPL-2.0-or-later
"""Is it known of each page whether it moved, although move_pages(2) ends at one that is held?"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import MutableSequence, Sequence

import pytest
from tlbcost.numa.watch import kernel

HELD = {3 << 12, 4 << 12, 9 << 12}
ABSENT = 7 << 12


class Kernel:
    """As Linux 6.12: where a page is held, the pages before it moved, and nothing is said."""

    def __init__(self) -> None:
        self.calls = 0

    def syscall(
        self, _: object, __: object, n: ctypes.c_ulong, pages: Sequence[int],
        nodes: Sequence[int], status: MutableSequence[int], ___: object,
    ) -> int:  # fmt: skip
        self.calls += 1
        for i in range(n.value):
            if pages[i] in HELD:
                return n.value - i
        for i in range(n.value):
            status[i] = -errno.ENOENT if pages[i] == ABSENT else nodes[i]
        return 0


def test_each_page_has_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Kernel()
    monkeypatch.setattr(kernel, "_libc", lambda: fake)
    pages = [number << 12 for number in range(12)]
    found = kernel.move(1, pages, [2] * 12)
    for page, now in zip(pages, found, strict=True):
        expected = -errno.EBUSY if page in HELD else -errno.ENOENT if page == ABSENT else 2
        assert now == expected
    assert fake.calls < 24


def test_what_cannot_be_moved_at_all_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses:
        def syscall(self, *_: object) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

    monkeypatch.setattr(kernel, "_libc", Refuses)
    with pytest.raises(PermissionError):
        kernel.move(1, [4096], [0])
