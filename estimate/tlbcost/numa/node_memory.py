# SPDX-License-Identifier: GPL-2.0-or-later
"""On which NUMA nodes did a program's memory really lie while it ran?

/proc/PID/numa_maps tells it mapping by mapping; move_pages(2), which moves nothing when it is
given no nodes, tells it page by page, for a sample.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tlbcost.common.document import doc
from tlbcost.run import process_tree
from tlbcost.system.machine import sys_path

# A look at numa_maps goes through all page tables, as one at smaps does.
_FIRST_S, _LATER_S, _SLOWER = 0.02, 0.5, 1.5
# The call's number, where it is not the generic one of newer architectures.
_CALL = {"x86_64": 279, "ppc64le": 301, "s390x": 310}
_GENERIC_CALL = 239
SAMPLE_PAGES = 4096
_NODE = re.compile(r"N(\d+)=(\d+)")


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """Where a program's memory lay, by node."""

    bytes_on: Annotated[Mapping[int, int], doc("bytes on each node, of all mappings")]
    anonymous_bytes_on: Annotated[Mapping[int, int], doc("the same of the anonymous ones")]
    policies: Annotated[tuple[str, ...], doc("the memory policies in force")]
    sampled_pages: Annotated[
        Mapping[int, int] | None,
        doc("anonymous base pages that move_pages was asked about; null: it could not be asked"),
    ] = None

    @property
    def resident_bytes(self) -> int:
        """On all nodes together."""
        return sum(self.bytes_on.values())


def parse(text: str, base_page_bytes: int) -> NodeMemory:
    """What /proc/PID/numa_maps says; lines of no memory and unknown words are passed over.

    Counts are in pages of the mapping's kernelpagesize_kB; transparent huge pages are counted in
    base pages there.
    """
    everything: dict[int, int] = {}
    anonymous: dict[int, int] = {}
    policies: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2:
            continue
        size = base_page_bytes
        found: list[tuple[int, int]] = []
        for word in words[2:]:
            name, _, value = word.partition("=")
            node = _NODE.fullmatch(word)
            if node:
                found.append((int(node[1]), int(node[2])))
            elif name == "kernelpagesize_kB" and value.isdigit():
                size = int(value) * 1024
        if found and words[1] not in policies:
            policies.append(words[1])
        is_anonymous = any(word.startswith("anon=") for word in words)
        for number, pages in found:
            everything[number] = everything.get(number, 0) + pages * size
            if is_anonymous:
                anonymous[number] = anonymous.get(number, 0) + pages * size
    return NodeMemory(everything, anonymous, tuple(policies))


def together(parts: Iterable[NodeMemory]) -> NodeMemory:
    """The memory of several processes."""
    sums: tuple[dict[int, int], dict[int, int], dict[int, int]] = ({}, {}, {})
    policies: list[str] = []
    asked = False
    for part in parts:
        asked = asked or part.sampled_pages is not None
        for total, one in zip(
            sums, (part.bytes_on, part.anonymous_bytes_on, part.sampled_pages or {}), strict=True
        ):
            for node, n in one.items():
                total[node] = total.get(node, 0) + n
        policies += [policy for policy in part.policies if policy not in policies]
    by_node = [dict(sorted(each.items())) for each in sums]
    return NodeMemory(by_node[0], by_node[1], tuple(policies), by_node[2] if asked else None)


def page_nodes(pid: int, addresses: Sequence[int]) -> list[int | None]:
    """The node of the page at each address of a process; None: no page is there.

    Raises OSError where the kernel cannot tell, or may not tell us of that process.
    """
    n = len(addresses)
    pages = (ctypes.c_void_p * n)(*addresses)
    status = (ctypes.c_int * n)()
    libc = ctypes.CDLL(None, use_errno=True)
    call = _CALL.get(platform.machine(), _GENERIC_CALL)
    done = libc.syscall(
        ctypes.c_long(call),
        ctypes.c_int(pid),
        ctypes.c_ulong(n),
        pages,
        ctypes.c_void_p(None),
        status,
        ctypes.c_int(0),
    )
    if done != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return [node if node >= 0 else None for node in status]


def _sample(pid: int, base_page_bytes: int) -> Mapping[int, int] | None:
    """Ask about pages of anonymous memory, as many from each part of it."""
    ranges: list[tuple[int, int]] = []
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
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
    counts: dict[int, int] = {}
    for node in found:
        if node is not None:
            counts[node] = counts.get(node, 0) + 1
    return counts


class PlacementSampler:
    """Looks at a program and all that it starts, from a thread, until it has ended.

        sampler = PlacementSampler(base_page_bytes)
        launcher.execute(argv, discard=False, started=sampler.start)
        memory = sampler.stop()

    Of all looks the one with most memory stays.
    """

    def __init__(self, base_page_bytes: int) -> None:
        self._base = base_page_bytes
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._most: NodeMemory | None = None

    def start(self, launcher_pid: int) -> None:
        """Watch the descendants of this process."""
        self._thread = threading.Thread(target=self._watch, args=(launcher_pid,), daemon=True)
        self._thread.start()

    def stop(self) -> NodeMemory | None:
        """End the watch. None: nothing was seen; it ended too soon, or may not be looked at."""
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
            if memory is not None and (
                self._most is None or memory.resident_bytes >= self._most.resident_bytes
            ):
                self._most = memory


def look(pids: Iterable[int], base_page_bytes: int) -> NodeMemory | None:
    """The memory of these processes now; None if that of none can be seen."""
    parts = []
    for pid in pids:
        try:
            text = sys_path(f"/proc/{pid}/numa_maps").read_text("utf-8", errors="replace")
        except OSError:
            continue
        memory = parse(text, base_page_bytes)
        if memory.bytes_on:
            parts.append(
                NodeMemory(
                    memory.bytes_on,
                    memory.anonymous_bytes_on,
                    memory.policies,
                    _sample(pid, base_page_bytes),
                )
            )
    return together(parts) if parts else None
