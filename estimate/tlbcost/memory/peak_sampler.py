# SPDX-License-Identifier: GPL-2.0-or-later
"""Samples of /proc/PID/smaps while a program runs."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tlbcost.memory import smaps
from tlbcost.memory.frames import Entries, entries_of
from tlbcost.memory.peak import MemoryPart, PeakMemory
from tlbcost.run import process_tree
from tlbcost.run.process_tree import is_copy, is_helper
from tlbcost.system import huge_pages, process

# A program is looked at often when it begins, and then this often. A look reads /proc/PID/status,
# which takes microseconds; smaps takes 7 ms per GiB of base pages, and keeps the program from
# mapping memory between two samples.
_FIRST_S, _LATER_S, _SLOWER = 0.005, 0.05, 1.3
_GREW = 1.1
# Memory that grew this many times is looked at without a rest: few looks, however slow one was.
_MULTIPLIED = 2.0
# smaps is read again when this many times what it took has passed since.
_REST, _REST_S = 50, 1.0
_REST_GROWING = 30
# Memory that has grown and now stands still may be all that there will be, and end soon.
_REST_GROWN = 10
# Sums within this part of the largest are at the peak.
_AT_PEAK = 0.95
# glibc's malloc maps large blocks, and begins each mapping with its size and a bit for that
# (malloc/malloc.c, IS_MMAPPED): what the program maps itself has none.
_LEAST_BYTES = 128 << 10
_HEADER = struct.Struct("=QQ")
_FLAGS, _MAPPED, _PAGE = 7, 2, 4096
# Those with the most memory on base pages decide what is advised.
_MOST_MAPPINGS = 32
# A page that userfaultfd is to fill would keep the reader waiting.
_USERFAULTFD = frozenset({"um", "uw", "ui"})


@dataclass(frozen=True, slots=True)
class _Sample:
    mappings: tuple[tuple[str, smaps.Mapping], ...]  # with the program
    mthp_bytes: dict[int, int] | None
    unreadable: int
    fallbacks: int | None
    frames: tuple[Entries, ...]  # of the processes whose frames may be known

    @property
    def resident_bytes(self) -> int:
        return sum(mapping.resident_bytes for _, mapping in self.mappings)

    @property
    def huge_fraction(self) -> float:
        return sum(mapping.huge_bytes for _, mapping in self.mappings) / self.resident_bytes


class PeakSampler:
    """Samples a program and all that it starts, from a thread, until it has ended.

        sampler = PeakSampler()
        launcher.execute(argv, discard=True, started=sampler.start)
        memory = sampler.stop()

    A process that outlives its parent is followed if it was seen before. For one program.
    `rest`: times of a look's CPU time that pass before the next one while memory grows: fewer where
    it has doubled, or grown and stopped growing. `frames`: look, too, at where its pages are in
    memory. `copied`: copies of it are followed, whose memory and helpers do not count.
    """

    def __init__(
        self, rest: int = _REST_GROWING, *, frames: bool = False, copied: bool = False
    ) -> None:
        self._rest = rest
        self._frames = frames
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._samples: list[_Sample] = []
        self._count = 0
        self._unreadable = 0
        self._known: dict[int, int] = {}
        self._launcher: int | None = None
        self._descendants = True
        self._copied = copied
        self._mthp_before: dict[int, int] | None = None
        self._fallbacks_before: int | None = None

    @property
    def why_not(self) -> str:
        if self._unreadable:
            return "its memory may not be looked at (/proc/PID/smaps: a setuid program?)"
        return "it ended before its memory could be looked at"

    def start(self, launcher_pid: int) -> None:
        self._launcher = launcher_pid
        self._begin()

    def start_at(self, pid: int, *, children: bool) -> None:
        """Watch a process that runs; with `children` its descendants."""
        started = process.start_ticks(pid)
        self._known = {} if started is None else {pid: started}
        self._descendants = children
        self._begin()

    def _begin(self) -> None:
        self._mthp_before = huge_pages.mthp_bytes()
        self._fallbacks_before = huge_pages.fallbacks()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> PeakMemory | None:
        """End the watch, however often it is called. None: nothing was seen, see why_not."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        sample = self._chosen()
        if sample is None:
            return None
        mappings = [mapping for _, mapping in sample.mappings]
        return PeakMemory(
            sample.resident_bytes,
            sum(mapping.anonymous_huge_bytes for mapping in mappings),
            sum(mapping.hugetlb_bytes for mapping in mappings),
            sum(mapping.shmem_huge_bytes for mapping in mappings),
            sum(mapping.file_huge_bytes for mapping in mappings),
            _limited(sample),
            _parts(sample),
            self._count,
            sample.unreadable,
            sample.fallbacks,
        )

    def peak(self) -> tuple[tuple[str, smaps.Mapping], ...]:
        """After stop(): each mapping that it read, with its program; empty: none was seen."""
        sample = self._chosen()
        return () if sample is None else sample.mappings

    def isolated_pages(self) -> int | None:
        """After stop(): its pages whose frames lay alone (frames.py); None: unknown."""
        sample = self._chosen()
        known = [entries.isolated() for entries in sample.frames] if sample is not None else []
        alone = [pages for pages in known if pages is not None]
        return sum(alone) if alone else None

    def _chosen(self) -> _Sample | None:
        """Of the samples at the peak the one with the middle share: khugepaged may come late.

        Of a program with copies the one with the largest share: its writes split what they share.
        """
        ordered = sorted(self._samples, key=lambda sample: sample.huge_fraction)
        if not ordered:
            return None
        return ordered[-1 if self._copied else (len(ordered) - 1) // 2]

    def _watch(self) -> None:
        wait, before, last_bytes, last_end, last_took = _FIRST_S, 0, 0, 0.0, 0.0
        while not self._ended.wait(wait):
            wait = min(wait * _SLOWER, _LATER_S)
            known = {
                pid: start
                for pid, start in self._known.items()
                if process_tree.is_alive(pid, start)
            }
            if self._descendants:
                roots = [*known] if self._launcher is None else [self._launcher, *known]
                known |= process_tree.offspring(roots)
            self._known = {pid: start for pid, start in known.items() if self._belongs(pid)}
            now = sum(map(_resident_bytes, self._known))
            rest = time.monotonic() - last_end
            if now > _MULTIPLIED * last_bytes:
                needed = 1
            else:
                needed = self._rest if now > before else min(self._rest, _REST_GROWN)
            before = now
            grew = now > _GREW * last_bytes and rest >= needed * last_took
            later = now >= _AT_PEAK * last_bytes and rest >= max(_REST * last_took, _REST_S)
            if now and (grew or later):
                # Its CPU time: what it waited for a CPU cost the program nothing.
                begin = time.thread_time()
                sample = self._look()
                last_took = time.thread_time() - begin
                last_end = time.monotonic()
                last_bytes = max(now, last_bytes)
                if sample is not None:
                    self._count += 1
                    samples = [*self._samples, sample]
                    least = _AT_PEAK * max(each.resident_bytes for each in samples)
                    self._samples = [each for each in samples if each.resident_bytes >= least]

    def _belongs(self, pid: int) -> bool:
        return not self._copied or not (is_helper(pid) or is_copy(pid))

    def _look(self) -> _Sample | None:
        present: list[tuple[str, smaps.Mapping]] = []
        unreadable, frames = 0, []
        for pid in self._known:
            try:
                executable = process.executable(pid)
                text = smaps.read(pid)
            except PermissionError:
                unreadable += 1
            except OSError:
                continue
            else:
                # A copy that was younger than a moment when processes were listed.
                if not self._belongs(pid):
                    continue
                found = _with_malloc_blocks(pid, smaps.parse(text, executable))
                if huge_pages.process_disabled(pid):
                    found = [replace(each, disabled=True) for each in found]
                present.extend((executable, each) for each in found if each.resident_bytes)
                frames.append(entries_of(pid, found) if self._frames else None)
        self._unreadable = max(self._unreadable, unreadable)
        if not present:
            return None
        before, now = self._fallbacks_before, huge_pages.fallbacks()
        return _Sample(
            tuple(present),
            huge_pages.grown(self._mthp_before, huge_pages.mthp_bytes()),
            unreadable,
            None if before is None or now is None else now - before,
            tuple(entries for entries in frames if entries is not None),
        )


def _resident_bytes(pid: int) -> int:
    """Bytes on pages of all sizes; 0 for a process that is gone."""
    status = process.status(pid)
    sizes = (status.get(key, "0 kB") for key in ("VmRSS", "HugetlbPages"))
    return 1024 * sum(int(size.removesuffix(" kB")) for size in sizes)


def _parts(sample: _Sample) -> tuple[MemoryPart, ...]:
    """Mappings of one program, name and kind together; most on base pages first."""
    groups: dict[tuple[str, smaps.MappingKind, str], list[smaps.Mapping]] = {}
    for executable, mapping in sample.mappings:
        groups.setdefault((mapping.name, mapping.kind, executable), []).append(mapping)
    parts: list[MemoryPart] = []
    for (name, kind, executable), mappings in groups.items():
        eligible = [each.resident_bytes - each.huge_bytes for each in mappings if each.eligible]
        parts.append(
            MemoryPart(
                name,
                kind,
                sum(each.resident_bytes for each in mappings),
                sum(each.huge_bytes for each in mappings),
                executable,
                None if any(each.eligible is None for each in mappings) else sum(eligible),
            )
        )
    return tuple(sorted(parts, key=lambda part: (-part.base_bytes, part.name)))


def _limited(sample: _Sample) -> dict[int, int] | None:
    """mTHP of the whole system, at most the program's anonymous memory."""
    if sample.mthp_bytes is None:
        return None
    room = sum(
        max(mapping.anonymous_bytes - mapping.anonymous_huge_bytes, 0)
        for _, mapping in sample.mappings
        if not mapping.hugetlb_bytes
    )
    limited: dict[int, int] = {}
    for size, n_bytes in sorted(sample.mthp_bytes.items(), reverse=True):
        limited[size] = min(n_bytes, room)
        room -= limited[size]
    return limited


def _with_malloc_blocks(pid: int, mappings: Sequence[smaps.Mapping]) -> list[smaps.Mapping]:
    """The mappings, the largest with the size of the block that they begin with, where readable."""
    asked = sorted(filter(_may_be, mappings), key=_base_bytes, reverse=True)[:_MOST_MAPPINGS]
    if not asked:
        return list(mappings)
    try:
        memory = os.open(Path(f"/proc/{pid}/mem"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return list(mappings)
    try:
        found = {each.start: _block_bytes(memory, each) for each in asked}
    finally:
        os.close(memory)
    return [
        replace(each, malloc_block_bytes=found[each.start]) if each.start in found else each
        for each in mappings
    ]


def _may_be(mapping: smaps.Mapping) -> bool:
    return (
        mapping.name == smaps.UNNAMED
        and mapping.kind == "anonymous"
        and mapping.permissions == "rw-p"
        and mapping.size_bytes >= _LEAST_BYTES
        and _base_bytes(mapping) > 0
        and not _USERFAULTFD & set(mapping.flags or ())
    )


def _base_bytes(mapping: smaps.Mapping) -> int:
    return mapping.resident_bytes - mapping.huge_bytes


def _block_bytes(memory: int, mapping: smaps.Mapping) -> int | None:
    try:
        header = os.pread(memory, _HEADER.size, mapping.start)
    except OSError:
        return None
    if len(header) < _HEADER.size:
        return None
    _, word = _HEADER.unpack(header)
    size = word & ~_FLAGS
    is_block = word & _FLAGS == _MAPPED and size % _PAGE == 0 and size >= _PAGE
    return size if is_block and size <= mapping.size_bytes else 0
