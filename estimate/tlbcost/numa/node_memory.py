# SPDX-License-Identifier: GPL-2.0-or-later
"""NUMA nodes that a program's memory really was on while it ran.

/proc/PID/numa_maps shows it by mapping; move_pages(2), which moves nothing without target nodes,
shows it by page, for a sample.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from tlbcost.common.document import doc
from tlbcost.run import process_tree
from tlbcost.system.machine import read_text

# Reading numa_maps walks all page tables, as reading smaps does.
_FIRST_S, _LATER_S, _SLOWER = 0.02, 0.5, 1.5
# The number of the system call, which newer architectures share.
_MOVE_PAGES = {"x86_64": 279, "ppc64le": 301, "s390x": 310}.get(platform.machine(), 239)
_MPOL_MF_MOVE = 2
# In one call, so that a signal does not wait for long.
MOST_PAGES = 4096
# What the kernel never says of a page.
UNKNOWN = -(1 << 30)
SAMPLE_PAGES = 4096
_NODE = re.compile(r"N(\d+)=(\d+)")
_PAGE = re.compile(r"kernelpagesize_kB=(\d+)")


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """Where a program's memory was, by node."""

    bytes_on: Annotated[Mapping[int, int], doc("bytes on each node, of all mappings")]
    anonymous_bytes_on: Annotated[Mapping[int, int], doc("the same of the anonymous ones")]
    policies: Annotated[tuple[str, ...], doc("the memory policies in force")]
    sampled_pages: Annotated[
        Mapping[int, int] | None,
        doc("anonymous base pages queried by move_pages; null: it could not be called"),
    ] = None

    @property
    def resident_bytes(self) -> int:
        return sum(self.bytes_on.values())


def parse(text: str, base_page_bytes: int) -> NodeMemory:
    """The contents of /proc/PID/numa_maps; lines without memory and unknown words are skipped.

    Counts are in pages of the mapping's kernelpagesize_kB; transparent huge pages are counted in
    base pages there.
    """
    everything: Counter[int] = Counter()
    anonymous: Counter[int] = Counter()
    policies: dict[str, None] = {}
    for line in text.splitlines():
        words = line.split()
        nodes = [(int(on[1]), int(on[2])) for on in map(_NODE.fullmatch, words[2:]) if on]
        if not nodes:
            continue
        policies[words[1]] = None
        size = next((int(kb[1]) << 10 for kb in map(_PAGE.fullmatch, words) if kb), base_page_bytes)
        is_anonymous = any(word.startswith("anon=") for word in words)
        for node, pages in nodes:
            everything[node] += pages * size
            if is_anonymous:
                anonymous[node] += pages * size
    return NodeMemory(everything, anonymous, tuple(policies))


def together(parts: Sequence[NodeMemory]) -> NodeMemory:
    def total(all_by_node: Iterable[Mapping[int, int]]) -> dict[int, int]:
        sums: Counter[int] = Counter()
        for by_node in all_by_node:
            sums.update(by_node)
        return dict(sorted(sums.items()))

    asked = [part.sampled_pages for part in parts if part.sampled_pages is not None]
    return NodeMemory(
        total(part.bytes_on for part in parts),
        total(part.anonymous_bytes_on for part in parts),
        tuple(dict.fromkeys(policy for part in parts for policy in part.policies)),
        total(asked) if asked else None,
    )


def system_call(number: int, *arguments: object) -> None:
    """Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def move_pages(pid: int, addresses: Sequence[int], nodes: Sequence[int] | None) -> list[int]:
    """move_pages(2): the status of each page; `nodes` None: moves nothing. Raises OSError."""
    n = len(addresses)
    status = (ctypes.c_int * n)(*([UNKNOWN] * n))
    pages, to = (ctypes.c_void_p * n)(*addresses), nodes and (ctypes.c_int * n)(*nodes)
    of, flags = (ctypes.c_int(pid), ctypes.c_ulong(n)), ctypes.c_int(_MPOL_MF_MOVE)
    system_call(_MOVE_PAGES, *of, pages, to, status, flags)
    return list(status)


def page_nodes(pid: int, addresses: Sequence[int]) -> list[int | None]:
    """The node of each page, None without one. Raises OSError if the kernel refuses."""
    found: list[int | None] = []
    for first in range(0, len(addresses), MOST_PAGES):
        status = move_pages(pid, addresses[first : first + MOST_PAGES], None)
        found += (node if node >= 0 else None for node in status)
    return found


def _sample(pid: int, base_page_bytes: int) -> Mapping[int, int] | None:
    """Query pages of anonymous memory, equally many from each part of it."""
    ranges: list[tuple[int, int]] = []
    with contextlib.suppress(OSError):
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
        for line in maps.split("\n"):
            words = line.split(None, 5)
            if len(words) == 5 or words[5:] == ["[heap]"]:
                low, _, high = words[0].partition("-")
                ranges.append((int(low, 16), int(high, 16)))
    pages = sum(high - low for low, high in ranges) // base_page_bytes
    if not pages:
        return None
    step = max(pages // SAMPLE_PAGES, 1) * base_page_bytes
    addresses = [at for low, high in ranges for at in range(low, high, step)][: 2 * SAMPLE_PAGES]
    try:
        found = page_nodes(pid, addresses)
    except OSError:
        return None
    return Counter(node for node in found if node is not None)


class PlacementSampler:
    """Samples a program and everything that it starts, from a thread: from start(), which is for
    Launcher.execute() to call, until stop(). The sample with most memory is kept.
    """

    def __init__(self, base_page_bytes: int) -> None:
        self._base = base_page_bytes
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._most: NodeMemory | None = None

    def start(self, launcher_pid: int) -> None:
        self._thread = threading.Thread(target=self._watch, args=(launcher_pid,), daemon=True)
        self._thread.start()

    def stop(self) -> NodeMemory | None:
        """Stop sampling. None: no sample; the program ended too soon, or may not be read."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        return self._most

    def _watch(self, launcher_pid: int) -> None:
        wait = _FIRST_S
        while not self._ended.wait(wait):
            wait = min(wait * _SLOWER, _LATER_S)
            memory = look(process_tree.offspring([launcher_pid]), self._base)
            most = 0 if self._most is None else self._most.resident_bytes
            if memory is not None and memory.resident_bytes >= most:
                self._most = memory


def look(pids: Iterable[int], base_page_bytes: int) -> NodeMemory | None:
    """The memory of these processes now; None if none can be read."""
    parts = []
    for pid in pids:
        memory = parse(read_text(f"/proc/{pid}/numa_maps") or "", base_page_bytes)
        if memory.bytes_on:
            parts.append(replace(memory, sampled_pages=_sample(pid, base_page_bytes)))
    return together(parts) if parts else None
