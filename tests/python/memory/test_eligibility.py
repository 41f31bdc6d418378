# SPDX-License-Identifier: GPL-2.0-or-later
"""Does each reason why memory is not on huge pages have its phrase, and is the reach compared?"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from builders.answer import GEOMETRY, MACHINE
from builders.memory import HUGE, MOUNTS, SETTINGS, SIZE, START, backed
from builders.tree import printed, put, there, valid
from tlbcost.common.document import to_json
from tlbcost.memory import smaps
from tlbcost.memory.areas import Area, reach_ratio, reaches_of
from tlbcost.memory.eligibility import MemoryKind, backing_of, kind_of, stand
from tlbcost.memory.process import MemoryMaps, ProcessMemory, look, print_maps
from tlbcost.system import huge_pages
from tlbcost.system.huge_pages import huge_settings

SMAPS = """\
7f0000000000-7f0004000000 rw-s 00001000 00:17 2                          /dev/shm/x
Size:              65536 kB
KernelPageSize:        4 kB
Rss:               65536 kB
Referenced:        32768 kB
Anonymous:             0 kB
AnonHugePages:         0 kB
THPeligible:           0
VmFlags: rd wr sh mr mw me ms sd
"""


@pytest.mark.parametrize(
    ("kind", "name", "changes", "settings", "reason"),
    [
        ("anonymous", "", {}, {}, "thp_madvise"),
        ("anonymous", "", {}, {"thp": "never"}, "thp_never"),
        ("anonymous", "", {}, {"thp": None}, "no_thp"),
        ("anonymous", "", {"flags": ("nh",)}, {}, "advised_against"),
        ("anonymous", "", {"flags": ("hg",), "eligible": True}, {}, "later"),
        ("anonymous", "", {"flags": ("hg",)}, {}, "untold"),
        ("anonymous", "", {"end": START + 4096 * 100}, {}, "too_small"),
        ("anonymous", "", {"start": START + 4096, "end": START + HUGE + 8192, "flags": ("hg",)},
         {}, "unaligned"),
        ("anonymous", "", {"huge_bytes": SIZE}, {}, "huge"),
        ("anonymous", "", {"resident_bytes": 0}, {}, "empty"),
        ("anonymous", "", {"flags": ("io", "pf")}, {}, "device"),
        ("hugetlbfs", "/huge/x", {"page_bytes": HUGE, "flags": ("ht",)}, {}, "hugetlb"),
        ("stack", "[stack]", {"end": START + 132 * 1024}, {}, "too_small"),
        ("tmpfs", "/dev/shm/x", {"device": (0, 23)}, {}, "tmpfs_never"),
        # A mapping is placed to suit huge pages only where it may have some: that is not why.
        ("tmpfs", "/dev/shm/x", {"device": (0, 23), "offset_bytes": 4096}, {}, "tmpfs_never"),
        ("tmpfs", "/srv/advise/x", {"device": (0, 24)}, {}, "tmpfs_advise"),
        ("tmpfs", "/srv/always/x", {"device": (0, 25), "eligible": True}, {}, "later"),
        ("tmpfs", "/srv/always/x", {"device": (0, 25), "offset_bytes": 4096}, {}, "unaligned"),
        ("tmpfs", "/srv/always/x", {"device": (0, 25)}, {"shmem": "deny"}, "shmem_deny"),
        ("memfd", "/memfd:x", {}, {}, "shmem_never"),
        ("shared", "/dev/zero", {}, {"shmem": "advise"}, "shmem_advise"),
        ("file", "/opt/data", {"device": (254, 0), "permissions": "r--s"}, {}, "file_not_advised"),
        ("file", "/opt/data", {"device": (254, 0), "permissions": "r--s"},
         {"kernel": (5, 10)}, "file_system"),
        ("segment", "/opt/app", {"device": (254, 0), "permissions": "r-xp"},
         {"files": True}, "thp_madvise"),
        ("file", "/opt/lib.so", {"device": (254, 0)}, {}, "file_system"),
    ],
)  # fmt: skip
def test_each_reason(
    kind: MemoryKind,
    name: str,
    changes: dict[str, object],
    settings: dict[str, object],
    reason: str,
) -> None:
    found = stand(kind, name, backed(**changes), replace(SETTINGS, **settings))  # type: ignore[arg-type]
    assert found.reason == reason
    assert found.words
    assert "\n" not in found.words
    assert found.eligible is (reason == "later") or reason in ("huge", "empty")


def test_a_process_may_have_them_off() -> None:
    found = stand("anonymous", "", backed(flags=("hg",)), SETTINGS, disabled=True)
    assert found.reason == "process"


def test_the_kernel_knows_better_than_the_rules() -> None:
    assert stand("anonymous", "", backed(eligible=True), SETTINGS).reason == "later"
    # Smaller transparent pages make a mapping eligible, too.
    smaller = replace(SETTINGS, mthp={65536: "always"})
    assert stand("anonymous", "", backed(eligible=True), smaller).reason == "thp_madvise"


def test_smaps_tell_place_flags_and_use() -> None:
    [mapping] = smaps.parse(SMAPS)
    assert (mapping.start, mapping.size_bytes, mapping.offset_bytes) == (START, SIZE, 4096)
    assert (mapping.device, mapping.page_bytes) == ((0, 23), 4096)
    assert mapping.referenced_bytes == 32 << 20
    assert "sh" in there(mapping.flags)
    assert kind_of(mapping, SETTINGS) == "tmpfs"
    assert backing_of(mapping).device == (0, 23)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        ("rw-p 00000000 00:00 0", "anonymous"),
        ("rwxp 00000000 00:00 0", "jit"),
        ("rw-p 00000000 00:00 0    [heap]", "heap"),
        ("rw-s 00000000 00:01 7    /memfd:x (deleted)", "memfd"),
        ("rw-s 00000000 00:01 7    /SYSV00000000 (deleted)", "sysv"),
        ("rw-s 00000000 00:01 7    /dev/zero (deleted)", "shared"),
        ("r--s 00000000 fe:00 7    /opt/data", "file"),
        ("rw-s 00000000 00:17 7    /dev/shm/gone (deleted)", "tmpfs"),
        ("r-xp 00000000 00:00 0    [vdso]", "unknown"),
    ],
)
def test_kinds_of_mappings(head: str, kind: MemoryKind) -> None:
    [mapping] = smaps.parse(f"7f0000000000-7f0004000000 {head}\nRss: 4 kB\n")
    assert kind_of(mapping, SETTINGS) == kind


def test_mounts_are_found_by_device_and_else_by_path() -> None:
    assert there(huge_pages.holding(MOUNTS, "/dev/shm/x", (0, 24))).folder == "/srv/advise"
    assert there(huge_pages.holding(MOUNTS, "/dev/shm/a/b (deleted)", (9, 9))).folder == "/dev/shm"
    assert huge_pages.holding((), "/dev/shm/x", (0, 23)) is None


def test_garbage_in_mountinfo_is_passed_over(root: Path) -> None:
    line = r"25 24 0:23 / /a\040b rw - tmpfs tmpfs rw,huge=within_size"
    put(root, "proc/self/mountinfo", f"x\n1 2 3\n{line}\n- - -\n")
    [mount] = huge_pages.mounted()
    assert (mount.folder, mount.huge) == ("/a b", "within_size")
    # Nothing else is there: nothing is made up.
    settings = huge_settings()
    assert (settings.thp, settings.shmem, settings.files, settings.pools) == (None, None, None, ())


MIB = 1 << 20
REACHES = reaches_of(GEOMETRY)
AREA = Area(
    name="/dev/shm/x", kind="tmpfs", mappings=1, start=0, end=64 * MIB, size_bytes=64 * MIB,
    resident_bytes=64 * MIB, huge_bytes=0, touched_bytes=None, eligible_bytes=0, page_bytes=4096,
    eligible=False, reason="tmpfs_never",
    words="its tmpfs is mounted without huge pages (huge=never) at /dev/shm",
    reach_ratio=8.0, exceeds_reach=True,
)  # fmt: skip
UNTOUCHED = replace(AREA, touched_bytes=0, reach_ratio=0.0, exceeds_reach=False)


def maps(*areas: Area, watched_s: float | None = None) -> MemoryMaps:
    process = ProcessMemory(
        pid=17, program="/opt/app", thp_mode="madvise", thp_defrag="madvise",
        shmem_enabled="never", looking_ns=1000, clearing_ns=2000 if watched_s else None,
        watched_s=watched_s, areas=areas,
    )  # fmt: skip
    return of_process(process)


def of_process(process: ProcessMemory) -> MemoryMaps:
    return MemoryMaps(
        tlbcost_version="0", date="2026-01-01T00:00:00Z", machine=MACHINE, argv=None,
        reach=REACHES, processes=(process,),
    )  # fmt: skip


def test_reach_is_of_the_last_level() -> None:
    assert REACHES[0].reach_bytes == 2048 * 4096
    assert reach_ratio(64 * MIB, 0.0, REACHES) == 8
    assert reach_ratio(64 * MIB, 1.0, REACHES) < 0.1
    assert reach_ratio(4 * MIB, 0.0, REACHES) == 0.5
    splintered = replace(GEOMETRY, huge=replace(GEOMETRY.base, entry_bytes=4096))
    assert reaches_of(splintered)[1].reach_bytes == REACHES[0].reach_bytes


def test_json_follows_its_schema() -> None:
    document = valid(to_json(maps(AREA)), "maps")
    assert document["processes"][0]["areas"][0]["exceeds_reach"] is True
    valid(to_json(of_process(look(os.getpid(), REACHES))), "maps")
    document["processes"][0]["areas"][0]["unit"] = 1
    with pytest.raises(jsonschema.ValidationError):
        valid(json.dumps(document), "maps")


def test_the_text_says_that_it_is_a_guess() -> None:
    text = printed(print_maps, maps(AREA), details=False)
    whole = " ".join(text.split())
    assert "64 MiB not on huge pages: its tmpfs is mounted without huge pages" in whole
    assert "A rough guess from sizes alone" in whole
    assert max(map(len, text.splitlines())) <= 80
    text = printed(print_maps, maps(UNTOUCHED, watched_s=2.0), details=True)
    assert "No mapping exceeds the TLB's reach" in text


def test_the_summary_fits_a_screen() -> None:
    areas = [replace(AREA, name=f"/dev/shm/{n}", start=n) for n in range(40)]
    text = printed(print_maps, maps(*areas), details=False)
    assert "40 mappings exceed the TLB's reach" in text
    assert "32 others" in text
    assert len(text.splitlines()) <= 24
    assert "others" not in printed(print_maps, maps(*areas), details=True)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("redis-server", "redis-server (/opt/app)"), ("app", ", /opt/app"), (None, ", /opt/app")],
)
def test_a_process_has_the_name_that_it_was_started_by(name: str | None, shown: str) -> None:
    found = maps(AREA)
    process = replace(found.processes[0], name=name)
    assert f"{shown}\n" in printed(print_maps, of_process(process), details=False)
