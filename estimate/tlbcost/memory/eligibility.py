# SPDX-License-Identifier: GPL-2.0-or-later
"""On which pages memory lies, and whether the kernel could put it on transparent huge pages.

The rules are those of Linux 6.18's mm/huge_memory.c and mm/shmem.c, as its
Documentation/admin-guide/mm/transhuge.rst lists them; where the kernel itself says whether a
mapping is eligible (smaps), that decides, and the rules only say why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tlbcost.common import units
from tlbcost.common.document import amount, doc
from tlbcost.memory import smaps
from tlbcost.memory.smaps import Mapping
from tlbcost.system import huge_pages
from tlbcost.system.huge_pages import HugeSettings

# heap: grown by brk. anonymous: private mmap, malloc's large blocks and arenas among them. segment:
# code, data and bss of the executable. file: a mapped file on a file system with storage. tmpfs,
# memfd, sysv: shared memory by the way it was made; shared: MAP_SHARED without a name. jit:
# anonymous memory that code runs from.
MemoryKind = Literal[
    "heap", "anonymous", "stack", "segment", "file", "tmpfs", "memfd", "sysv", "shared",
    "hugetlbfs", "jit", "unknown",
]  # fmt: skip

Growing = Literal["brk", "arena"]

_NAMES: dict[MemoryKind, str] = {
    "heap": "[heap]",
    "anonymous": "anonymous memory",
    "stack": "[stack]",
    "shared": "shared memory",
    "sysv": "SysV shared memory",
    "hugetlbfs": "huge pages",
    "jit": "code made at run time",
    "unknown": "other memory",
}


@dataclass(frozen=True, slots=True)
class Backing:
    """What the kernel said of a mapping while the program ran natively (smaps).

    `page_bytes`: size of the pages that hold most of it. `eligible`: THPeligible; None: unknown.
    `flags`: VmFlags (`hg`: madvised, `nh`: madvised not to, `ht`: hugetlb). `start`, `end`: of the
    largest one, where alignment and size below a huge page matter. `offset_bytes`, `device`: in
    the file that is mapped there, and (major, minor) of its file system. `malloc_block_bytes`: of
    the block of glibc's malloc that it begins with; 0: it begins with none; None: not known.
    `growing`: it is memory that grows in small steps.
    """

    start: Annotated[int, amount("first address of the largest mapping")]
    end: Annotated[int, amount("address after its last")]
    permissions: Annotated[str, doc("its permissions")]
    resident_bytes: Annotated[int, amount("memory present")]
    huge_bytes: Annotated[int, amount("of that, on huge pages")]
    page_bytes: Annotated[int, amount("size of the pages that hold most of it")]
    eligible: Annotated[bool | None, doc("THPeligible; null: not reported")]
    flags: Annotated[tuple[str, ...], doc("VmFlags, such as hg: madvised")]
    offset_bytes: Annotated[int, amount("in the file that is mapped there")] = 0
    device: Annotated[tuple[int, int] | None, doc("major and minor number of its file system")] = (
        None
    )
    malloc_block_bytes: Annotated[
        int | None,
        doc("size of the block of glibc's malloc that it begins with; 0: none; null: not known"),
    ] = None
    growing: Annotated[
        Growing | None,
        doc(
            "memory that grows in small steps: the heap, by brk, or an arena of glibc's malloc for "
            "threads; null: neither"
        ),
    ] = None
    disabled: Annotated[
        bool, doc("its process may have no transparent huge pages (PR_SET_THP_DISABLE)")
    ] = False


def name_of(kind: MemoryKind) -> str:
    """What memory of a kind is called where it has no name."""
    return _NAMES.get(kind, "other memory")


Reason = Literal[
    "huge", "hugetlb", "no_thp", "thp_never", "thp_madvise", "advised_against", "process",
    "too_small", "unaligned", "tmpfs_never", "tmpfs_advise", "shmem_never", "shmem_advise",
    "shmem_deny", "file_system", "file_not_advised", "file_cached", "device", "later", "untold",
    "empty",
]  # fmt: skip

# Most of the memory: what is left are the ends of a mapping, where no huge page fits.
_MOST = 0.9
_SHARED: dict[str, MemoryKind] = {"/memfd:": "memfd", "/SYSV": "sysv"}
_DEVICE_FLAGS = ("io", "pf")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one mapping stands.

    `page_bytes`: size of the pages that hold most of it; None: there is none of it, or it is not
    known. `eligible`: whether the kernel may put it, as things are, on transparent huge pages.
    `reason` and `words`: why it is not on huge pages (or that it is), in one phrase.
    """

    page_bytes: int | None
    eligible: bool | None
    reason: Reason
    words: str


def backing_of(mapping: Mapping) -> Backing:
    growing: Growing | None = "brk" if mapping.kind == "heap" else None
    if growing is None and mapping.name == smaps.ARENA:
        growing = "arena"
    return Backing(
        mapping.start,
        mapping.end,
        mapping.permissions,
        mapping.resident_bytes,
        mapping.huge_bytes,
        mapping.page_bytes or 0,
        mapping.eligible,
        mapping.flags or (),
        mapping.offset_bytes,
        mapping.device,
        mapping.malloc_block_bytes,
        growing,
        mapping.disabled,
    )


def kind_of(mapping: Mapping, settings: HugeSettings) -> MemoryKind:
    name = mapping.name
    if mapping.hugetlb_bytes or "ht" in (mapping.flags or ()):
        return "hugetlbfs"
    for start, kind in _SHARED.items():
        if name.startswith(start):
            return kind
    if name.startswith(("/dev/zero", "[anon_shmem")):
        return "shared"
    if mapping.kind in ("heap", "stack", "segment"):
        return "heap" if mapping.kind == "heap" else mapping.kind
    if name.startswith("/"):
        mount = huge_pages.holding(settings.mounts, name, mapping.device)
        return "tmpfs" if mount is not None and mount.kind == "tmpfs" else "file"
    if name in ("[vdso]", "[vvar]", "[vsyscall]", "[vvar_vclock]", "[uprobes]"):
        return "unknown"
    return "jit" if "x" in mapping.permissions else "anonymous"


def stand(
    kind: MemoryKind, name: str, backed: Backing, settings: HugeSettings, *, disabled: bool = False
) -> Standing:
    """Where a mapping stands. `disabled`: its process has transparent huge pages off (prctl)."""
    huge = settings.huge_page_bytes
    size = _page_bytes(backed, huge)
    if kind == "hugetlbfs" or "ht" in backed.flags:
        pages = f"{units.size(backed.page_bytes)} pages" if backed.page_bytes else "huge pages"
        return Standing(size, False, "hugetlb", f"on {pages} of the pool already")
    if backed.resident_bytes and backed.huge_bytes >= _MOST * backed.resident_bytes:
        return Standing(size, backed.eligible, "huge", "on transparent huge pages already")
    if not backed.resident_bytes:
        return Standing(None, backed.eligible, "empty", "nothing of it is in memory")
    reason, words = _why_not(kind, name, backed, settings, disabled=disabled)
    if backed.eligible and reason not in ("later", "too_small", "unaligned"):
        # The kernel knows better, and smaller transparent pages count for it as well.
        reason, words = (reason, words) if settings.mthp else ("later", _LATER[_group(kind)])
    elif backed.eligible is False and reason == "later":
        reason, words = "untold", "the kernel says that it is not eligible, but not why"
    return Standing(size, reason == "later", reason, words)


_NOT_ASKED = 'THP is "madvise" here, and the program does not ask for huge pages'
_LATER = {
    "anonymous": "it is eligible, but was touched in small steps or before it was advised, or its "
    "huge pages were split when parts were released; khugepaged may collapse it",
    "shared": "it is eligible; pages that were there before wait for khugepaged",
    "file": "it is eligible, and waits for khugepaged",
}


def _group(kind: MemoryKind) -> str:
    if kind in ("tmpfs", "memfd", "sysv", "shared"):
        return "shared"
    return "file" if kind == "file" else "anonymous"


def _page_bytes(backed: Backing, huge: int | None) -> int | None:
    if not backed.resident_bytes:
        return None
    if backed.page_bytes and huge and backed.huge_bytes * 2 >= backed.resident_bytes:
        return max(huge, backed.page_bytes) if "ht" not in backed.flags else backed.page_bytes
    return backed.page_bytes or None


def _why_not(
    kind: MemoryKind, name: str, backed: Backing, settings: HugeSettings, *, disabled: bool
) -> tuple[Reason, str]:
    if any(flag in backed.flags for flag in _DEVICE_FLAGS):
        return "device", "memory of a device, or of the kernel"
    if settings.thp is None or settings.huge_page_bytes is None:
        return "no_thp", "this kernel has no transparent huge pages"
    if disabled or backed.disabled:
        return "process", "the program, or what started it, has them off (prctl PR_SET_THP_DISABLE)"
    if "nh" in backed.flags:
        return "advised_against", "the program advises against it (MADV_NOHUGEPAGE)"
    huge = settings.huge_page_bytes
    if backed.end - backed.start < huge:
        what = "a stack" if kind == "stack" else "it is"
        return "too_small", f"{what} smaller than a huge page ({units.size(huge)})"
    reason, words = _setting(kind, name, backed, settings)
    # A mapping is placed to suit huge pages only where it may have some.
    return (_unfit(kind, backed, huge) if reason == "later" else None) or (reason, words)


def _setting(
    kind: MemoryKind, name: str, backed: Backing, settings: HugeSettings
) -> tuple[Reason, str]:
    group = _group(kind)
    if group == "shared":
        option, where = settings.shmem, f"shmem_enabled is {settings.shmem}"
        if settings.shmem == "deny":
            return "shmem_deny", "shared memory gets none (shmem_enabled is deny)"
        if kind == "tmpfs" and settings.shmem != "force":
            mount = huge_pages.holding(settings.mounts, name, backed.device)
            option = mount.huge if mount is not None else "never"
            where = f"its tmpfs is mounted with huge={option}"
            if option == "never":
                where = "its tmpfs is mounted without huge pages (huge=never)"
            if mount is not None:
                where += f" at {mount.folder}"
        tmpfs = kind == "tmpfs"
        if option in (None, "never"):
            return ("tmpfs_never" if tmpfs else "shmem_never"), where
        if option == "advise" and "hg" not in backed.flags:
            words = f"{where}, and the program does not ask for huge pages"
            return ("tmpfs_advise" if tmpfs else "shmem_advise"), words
        return "later", _LATER["shared"]
    if group == "file" or (kind == "segment" and backed.device not in (None, (0, 0))):
        return _file(name, backed, settings)
    if settings.thp == "never":
        return "thp_never", "transparent huge pages are off (never)"
    if settings.thp == "madvise" and "hg" not in backed.flags:
        return "thp_madvise", _NOT_ASKED
    return "later", _LATER[group]


def _unfit(kind: MemoryKind, backed: Backing, huge: int) -> tuple[Reason, str] | None:
    """Why no whole huge page fits into it, where none does."""
    size = units.size(huge)
    if -(-backed.start // huge) * huge + huge > backed.end:
        return "unaligned", f"no aligned {size} page fits into it"
    mapped = _group(kind) in ("shared", "file") or kind == "segment"
    if mapped and (backed.start - backed.offset_bytes) % huge and backed.device != (0, 0):
        return "unaligned", f"its place in the file and its address differ below {size}"
    return None


def _file(name: str, backed: Backing, settings: HugeSettings) -> tuple[Reason, str]:
    mount = huge_pages.holding(settings.mounts, name, backed.device)
    asked = settings.thp == "always" or "hg" in backed.flags
    if "w" in backed.permissions and backed.permissions.endswith("p"):
        return "file_system", "a private copy of a file, which has none"
    if settings.files and "x" in backed.permissions and "w" not in backed.permissions:
        if settings.thp == "never":
            return "thp_never", "transparent huge pages are off (never)"
        if not asked:
            return "thp_madvise", _NOT_ASKED
        return "later", _LATER["file"]
    if mount is not None and huge_pages.advisable(mount.kind, settings.kernel):
        if "hg" in backed.flags:
            return "file_cached", "what the file's cache held before it was asked for stays small"
        return (
            "file_not_advised",
            f"{mount.kind} gives huge pages where they are asked for (madvise) before it is read",
        )
    kind = f" ({mount.kind})" if mount is not None else ""
    return "file_system", f"its file system{kind} has no huge pages in this kernel"
