# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up mappings, a system's settings, a /proc of processes, and documents of `tlbcost top`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tlbcost.live.document import By, Host, LivePool, Row, TopDocument
from tlbcost.memory.areas import Reaches, TlbReach
from tlbcost.memory.eligibility import Backing
from tlbcost.system.huge_pages import FileSystem, HugeSettings
from tlbcost.system.machine import Machine

HUGE = 2 << 20
SIZE = 64 << 20
START = 0x7F0000000000
MOUNTS = (
    FileSystem("/", "ext4", (254, 0)),
    FileSystem("/dev/shm", "tmpfs", (0, 23), "never"),
    FileSystem("/srv/advise", "tmpfs", (0, 24), "advise"),
    FileSystem("/srv/always", "tmpfs", (0, 25), "always"),
)
SETTINGS = HugeSettings(
    HUGE, "madvise", "madvise", "never", files=False, kernel=(6, 18), mounts=MOUNTS
)


def backed(**changes: object) -> Backing:
    """64 MiB of base pages at a huge page's boundary, readable and writable."""
    made = Backing(START, START + SIZE, "rw-p", SIZE, 0, 4096, False, (), 0, (0, 0))
    return replace(made, **changes)  # type: ignore[arg-type]


REACHES: Reaches = (
    TlbReach(4096, 1024, 4096, 4 << 20, None, None),
    TlbReach(2 << 20, 1024, 2 << 20, 2 << 30, None, None),
)


def mapping(
    rss: int,
    *,
    pss: int | None = None,
    huge: int = 0,
    shmem: int = 0,
    eligible: bool | None = True,
    shared_hugetlb: int = 0,
    private_hugetlb: int = 0,
    inode: int = 0,
) -> str:
    """One mapping of smaps, in KiB, with the fields in the order of Linux 6.18."""
    flag = "" if eligible is None else f"THPeligible:           {int(eligible)}\n"
    return (
        f"7f0000000000-7f0008000000 rw-p 00000000 00:0f {inode}     a file: 1 kB\n"
        f"Size:             131072 kB\nKernelPageSize:        4 kB\nMMUPageSize:           4 kB\n"
        f"Rss:              {rss:6} kB\nPss:              {rss if pss is None else pss:6} kB\n"
        f"Pss_Dirty:             0 kB\nReferenced:            0 kB\nAnonymous:             0 kB\n"
        f"LazyFree:              0 kB\nAnonHugePages:    {huge:6} kB\n"
        f"ShmemPmdMapped:   {shmem:6} kB\nFilePmdMapped:         0 kB\n"
        f"Shared_Hugetlb:   {shared_hugetlb:6} kB\nPrivate_Hugetlb:  {private_hugetlb:6} kB\n"
        f"Swap:                  0 kB\nSwapPss:               0 kB\nLocked:                0 kB\n"
        f"{flag}ProtectionKey:         0\nVmFlags: rd wr mr mw me ac\n"
    )


def rollup(rss: int, *, pss: tuple[int, int, int], anonymous: int, huge: int, shmem: int) -> str:
    """smaps_rollup, in KiB; `pss`: of anonymous memory, files and shared memory."""
    return (
        "55ba4002a000-7ffe48e90000 ---p 00000000 00:00 0                          [rollup]\n"
        f"Rss: {rss} kB\nPss: {sum(pss)} kB\nPss_Dirty: 0 kB\nPss_Anon: {pss[0]} kB\n"
        f"Pss_File: {pss[1]} kB\nPss_Shmem: {pss[2]} kB\nAnonymous: {anonymous} kB\n"
        f"AnonHugePages: {huge} kB\nShmemPmdMapped: {shmem} kB\nFilePmdMapped: 0 kB\n"
        "Shared_Hugetlb: 0 kB\nPrivate_Hugetlb: 0 kB\nLocked: 0 kB\n"
    )


class Proc:
    """A folder that stands for /proc, with a process that reads it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "proc"
        (self.folder / "self").mkdir(parents=True)
        (self.folder / "self" / "smaps").write_text(mapping(4))

    def roll_up(self, pid: int, text: str) -> None:
        for name in ("self", str(pid)):
            (self.folder / name / "smaps_rollup").write_text(text)

    def add(
        self, pid: int, smaps: str, *, name: str = "a", group: str = "/a", faults: int = 0
    ) -> Path:
        folder = self.folder / str(pid)
        folder.mkdir(exist_ok=True)
        self.stat(pid, name=name, faults=faults, size=1 if smaps else 0)
        (folder / "smaps").write_text(smaps)
        (folder / "cgroup").write_text(f"9:name=systemd:/no\n2:cpu,memory:{group}\n0::/other\n")
        return folder

    def stat(
        self, pid: int, *, name: str = "a", faults: int = 0, size: int = 1, started: int = 7
    ) -> None:
        fields = f"S 1 1 1 0 -1 0 {faults} 0 3 0 5 5 0 0 20 0 1 0 {started} {size} 256 " + "0 " * 15
        (self.folder / str(pid) / "stat").write_text(f"{pid} ({name}) {fields}\n")


def row(name: str = "redis-server", **others: object) -> Row:
    values: dict[str, object] = {
        "pid": 12, "name": name, "cgroup": "/a", "processes": 1, "memory_bytes": 10 << 20,
        "huge_bytes": 2 << 20, "eligible_bytes": 6 << 20, "ineligible_bytes": 2 << 20,
        "reach_ratio": 2.0, "faults": 100, "fault_rate": 12.4, "age_s": 1.0, "eligible_age_s": 90.0,
        **others,
    }  # fmt: skip
    return Row(**values)  # type: ignore[arg-type]


def unknown(name: str) -> Row:
    nothing = ("huge_bytes", "eligible_bytes", "ineligible_bytes", "reach_ratio", "fault_rate")
    return row(name, **dict.fromkeys((*nothing, "age_s", "eligible_age_s")))


def document(*rows: Row, by: By = "process", unreadable: int = 0) -> TopDocument:
    return TopDocument(
        tlbcost_version="1",
        date="2026-11-25T04:26:05Z",
        machine=Machine(
            "AuthenticAMD", "25", "1", "1", "EPYC", None, "kvm", "6.18", 4096, None, None
        ),
        reach=REACHES,
        host=Host(
            memory_bytes=24 << 30,
            available_bytes=20 << 30,
            thp_bytes=2 << 30,
            thp_mode="madvise",
            thp_defrag=None,
            fallback_rate=None,
            pools=(LivePool(page_size_bytes=2 << 20, total_bytes=64 << 20, free_bytes=8 << 20),),
        ),
        by=by,
        unreadable=unreadable,
        hidden=False,
        own_cpu_fraction=0.007,
        rows=rows,
    )


def huge_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    return sum(int(each) for each in re.findall(r"^AnonHugePages:\s+(\d+)", text, re.MULTILINE))
