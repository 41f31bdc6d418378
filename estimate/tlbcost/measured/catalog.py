# SPDX-License-Identifier: GPL-2.0-or-later
"""The ways to give a program huge pages without changing it, and those that serve here."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.allocators.recognise import own_heap_of, program_of
from tlbcost.common import units
from tlbcost.common.errors import CANNOT_MEASURE, USAGE, TlbcostError
from tlbcost.common.sudo import calling_user
from tlbcost.measured.method import AS_IT_RUNS, Method, base_environment, setting
from tlbcost.memory import smaps
from tlbcost.system import hints, huge_pages, machine
from tlbcost.system.huge_pages import default_page_bytes, free_pages, pool_pages, process_disabled
from tlbcost.system.machine import POOLS, THP, TUNABLES, huge_page_bytes, thp_mode
from tlbcost.thp import program as thp

if TYPE_CHECKING:
    from tlbcost.attribution.backing import Seen
    from tlbcost.memory.peak import MemoryScope
    from tlbcost.run.outcome import Run

_JAVA = "JAVA_TOOL_OPTIONS=-XX:+UseTransparentHugePages"
# Less is the code and the libraries of any program.
_LEAST_SHARED_BYTES = 64 << 20
_SHM_GROUP = "/proc/sys/vm/hugetlb_shm_group"
_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_REMAPPED = {"malloc": "the heap", "shared": "shared memory", "segments": "the program's segments"}
KNOWN = (
    "auto, run-thp[-text], glibc-thp, glibc-hugetlb[=SIZE], thp, mthp[-SIZE], hugetlb-1g, "
    "hugectl[:OPTIONS], allocator=PATH, plan:FILE, env:NAME=VALUE"
)


def named(text: str) -> Method:
    """The method of this name. Raises TlbcostError: 2 unknown, 4 not possible on this system."""
    name, _, value = text.partition("=")
    if text in ("run-thp", "run-thp-text"):
        return _run_thp(code=text == "run-thp-text")
    if text == "glibc-thp":
        return _glibc_thp()
    if name == "glibc-hugetlb":
        return _glibc_hugetlb(text, None if value in ("", "2") else _size(value, text))
    if text == "hugetlb-1g":
        return _glibc_hugetlb(text, 1 << 30)
    if text == "thp":
        return _thp()
    if text.startswith("mthp-"):
        return _mthp(text, _size(text.removeprefix("mthp-"), text))
    if text == "hugectl" or text.startswith(("hugectl:", "hugectl ")):
        return _hugectl(shlex.split(text[len("hugectl:") :]) or ["--heap"])
    if text.startswith("plan:"):
        from tlbcost.attribution.sites import plan_variables

        _check_thp("plan")
        return Method(
            text,
            "allocations that the plan names ask for transparent huge pages (tlbcost run --plan)",
            "anonymous",
            huge_page_bytes(),
            plan_variables(Path(text.removeprefix("plan:"))),
            settings=_on_request(),
            # It is for a part of the memory.
            proven_fraction=0.005,
        )
    if text.startswith("env:"):
        return _environment(text, shlex.split(text.removeprefix("env:")))
    if name == "allocator" and value:
        path = Path(value)
        if not path.is_file() or not os.access(path, os.R_OK):
            raise TlbcostError(
                f"no allocator to be read at {path}", "--with allocator=/path/to/lib.so", USAGE
            )
        return Method(
            f"allocator={path}",
            f"{path.name} instead of the C library's malloc",
            "malloc",
            huge_page_bytes(),
            {"LD_PRELOAD": str(path.resolve())},
            notes=("the other malloc itself is part of what was measured, besides its huge pages",),
        )
    raise TlbcostError(f"there is no method {text}", f"--with one of: {KNOWN}", USAGE)


def auto(run: Run, *, heeds_tunables: bool = True) -> tuple[Method, str]:
    """The method that reaches most memory here without root, given a run on base pages, and why.

    `heeds_tunables`: most of the program's memory is of a malloc that those of glibc reach. Raises
    TlbcostError with exit code 4 if there is no method.
    """
    version, mode, size = machine.glibc_version(), thp_mode(), default_page_bytes()
    tunable = version is not None and version >= machine.FIRST_WITH_HUGETLB and heeds_tunables
    if tunable and size is not None and free_pages(size) >= pool_pages(run.max_rss_bytes, size):
        return named("glibc-hugetlb"), (
            f"{free_pages(size)} huge pages of {units.size(size)} are free, which hold all that "
            "malloc gives out"
        )
    if mode == "always":
        return named("thp"), "transparent huge pages are always on here"
    if tunable and mode == "madvise":
        return named("glibc-thp"), (
            "no root and no pool is needed; --with glibc-hugetlb reaches arenas of threads, too"
        )
    if mode == "madvise" and thp.is_here():
        return named("run-thp"), "no switch of glibc's malloc serves this program's memory"
    why = "transparent huge pages are off" if tunable else "malloc has no switch for huge pages"
    setting = hints.write_setting("madvise" if tunable else "always", f"{THP}/enabled")
    raise TlbcostError(
        f"no method works without root here: {why}, and no pool has free pages",
        setting,
        CANNOT_MEASURE,
    )


def candidates(seen: Seen, *, system: bool, traced: bool, code: bool = False) -> list[Method]:
    """The ways that may put the memory of a program onto huge pages here, the simplest first.

    `seen`: its memory in an ordinary run. `system`: settings of the system may change, by root;
    `traced`: the program may be traced. `code`: the program's code, too. Pools are left to those
    who reserved them.
    """
    mode = thp_mode()
    if code:
        return [_run_thp(code=True)] if traced and thp.is_here() and mode != "never" else []
    own = _as_it_runs(seen)
    if own is not None:
        return [own]
    if is_disabled(seen) or is_shared(seen):
        return []
    if mode == "always":
        return [_thp()]
    found: list[Method] = []
    if mode == "madvise":
        found += _switches(seen)
    if system and mode is not None and hints.is_root():
        found.append(_thp())
    if mode == "madvise" and traced and thp.is_here():
        found.append(_run_thp())
    return found


def is_disabled(seen: Seen) -> bool:
    anonymous = sum(mapping.anonymous_bytes for _, mapping in seen)
    off = sum(mapping.anonymous_bytes for _, mapping in seen if mapping.disabled)
    return 2 * off > anonymous and not process_disabled(os.getpid())


def is_shared(seen: Seen) -> bool:
    anonymous = sum(mapping.anonymous_bytes for _, mapping in seen)
    resident = sum(mapping.resident_bytes for _, mapping in seen)
    return resident - anonymous > max(anonymous, _LEAST_SHARED_BYTES)


def _as_it_runs(seen: Seen) -> Method | None:
    """As it is started by the user, if that has most of its memory on huge pages; else None.

    What asks for them counts, too: copies that were followed split huge pages.
    """
    mappings = [each for _, each in seen]
    anonymous = sum(each.anonymous_bytes for each in mappings)
    huge = sum(
        each.anonymous_bytes if each.eligible and "hg" in (each.flags or ()) else
        each.anonymous_huge_bytes
        for each in mappings
    )  # fmt: skip
    if not anonymous or 2 * huge < anonymous:
        return None
    kept, _ = base_environment()
    own = {name: value for name, value in os.environ.items() if kept.get(name) != value}
    return Method(AS_IT_RUNS, "as it runs already", "anonymous", huge_page_bytes(), own)


def _switches(seen: Seen) -> list[Method]:
    """The switch of the allocator that has most of the program's memory, if it has one."""
    sizes: dict[str, int] = {}
    for program, mapping in seen:
        sizes[program] = sizes.get(program, 0) + mapping.anonymous_bytes
    if not sizes:
        return []
    largest = max(sizes, key=lambda program: sizes[program])
    mapped = [mapping for program, mapping in seen if program == largest]
    found = program_of(largest, [mapping.name for mapping in mapped])
    malloc, runtime = found.malloc, own_heap_of(found)
    if found.secure:
        return []
    if runtime == "java":
        return [_environment(f"env:{_JAVA}", [_JAVA])]
    if malloc is None or malloc.variable is None:
        return []
    if malloc.name == "glibc":
        version = machine.glibc_version()
        by_malloc = sum(mapping.anonymous_bytes for mapping in mapped if _is_glibcs(mapping))
        if (
            version is None
            or version < machine.FIRST_WITH_HUGETLB
            or 2 * by_malloc < sizes[largest]
        ):
            return []
        return [_glibc_thp()]
    value = "thp:always,metadata_thp:auto" if malloc.name == "jemalloc" else "1"
    return [_environment(f"env:{malloc.variable}={value}", [f"{malloc.variable}={value}"])]


def _is_glibcs(mapping: smaps.Mapping) -> bool:
    if mapping.kind == "heap" or mapping.name == smaps.ARENA:
        return True
    # None: it could not be looked at.
    return mapping.kind == "anonymous" and mapping.malloc_block_bytes != 0


def _check_tunable(name: str) -> None:
    version = machine.glibc_version()
    if version is None or version < machine.FIRST_WITH_HUGETLB:
        found = f"glibc {version[0]}.{version[1]}" if version else "not glibc"
        raise TlbcostError(
            f"{name} needs glibc 2.35, whose malloc can be asked for huge pages; here is {found}",
            "--with allocator=PATH or, as root, --with thp",
            CANNOT_MEASURE,
        )


def _glibc_thp() -> Method:
    _check_tunable("glibc-thp")
    _check_thp("glibc-thp")
    return Method(
        "glibc-thp",
        f"malloc asks for transparent huge pages ({machine.HUGETLB_TUNABLE}=1)",
        "malloc",
        huge_page_bytes(),
        {TUNABLES: f"{machine.HUGETLB_TUNABLE}=1"},
        settings=_on_request(),
    )


def _glibc_hugetlb(name: str, size: int | None) -> Method:
    _check_tunable(name)
    pool = _check_pool_size(name, size)
    value = 2 if size is None else size
    return Method(
        name,
        f"malloc takes {units.size(pool)} pages from the pool ({machine.HUGETLB_TUNABLE}={value})",
        "malloc",
        pool,
        {TUNABLES: f"{machine.HUGETLB_TUNABLE}={value}"},
        pool_bytes=pool,
    )


def _run_thp(*, code: bool = False) -> Method:
    if not thp.is_here():
        why = "it traces the program, which it does on x86-64 only"
        raise TlbcostError(f"cannot try run-thp: {why}", "--with glibc-thp, or thp", CANNOT_MEASURE)
    name, also = ("run-thp-text", ", its code is copied to them") if code else ("run-thp", "")
    _check_thp(name)
    option = " --text" if code else ""
    return Method(
        name,
        f"each of the program's mappings asks for transparent huge pages{also} "
        f"(tlbcost run --thp{option})",
        "anonymous",
        huge_page_bytes(),
        prefix=thp.launcher(text=code),
        settings=_on_request(),
        notes=("a stop at each of its larger mappings is part of what was measured",),
    )


def _on_request() -> tuple[tuple[str, str], ...]:
    """Where all memory gets transparent huge pages, what asks for them does too."""
    return () if thp_mode() == "always" else ((f"{THP}/enabled", "madvise"),)


def _thp() -> Method:
    _check_thp("thp")
    return Method(
        "thp",
        "transparent huge pages for all anonymous memory (always)",
        "anonymous",
        huge_page_bytes(),
        settings=((f"{THP}/enabled", "always"),),
    )


def _mthp(name: str, size: int) -> Method:
    path = f"{THP}/hugepages-{size >> 10}kB/enabled"
    if setting(path) is None:
        raise TlbcostError(
            f"this kernel has no transparent huge pages of {units.size(size)}",
            f"ls -d {THP}/hugepages-*",
            CANNOT_MEASURE,
        )
    return Method(
        name,
        f"transparent huge pages of {units.size(size)} for all anonymous memory",
        "anonymous",
        size,
        settings=(
            *(((f"{THP}/enabled", "madvise"),) if thp_mode() == "always" else ()),
            (path, "always"),
        ),
        notes=("pages of this size are counted for the whole system, not for the program alone",),
    )


def every_size() -> list[str]:
    """The names of methods with transparent huge pages of each size that this kernel has.

    Raises TlbcostError (4) if it has one size alone.
    """
    names = {size: f"mthp-{size >> 10}K" for size in sorted(machine.sizes_below(THP))}
    # A size for shared memory alone has no such file.
    found = [
        "thp" if size == huge_page_bytes() else name
        for size, name in names.items()
        if setting(f"{THP}/hugepages-{size >> 10}kB/enabled") is not None
    ]
    if not found:
        why = "this kernel has transparent huge pages of one size at most; others are of Linux 6.8"
        raise TlbcostError(f"mthp: {why}", "--with thp", CANNOT_MEASURE)
    return found


def _hugectl(options: list[str]) -> Method:
    text = f"hugectl {shlex.join(options)}"
    if shutil.which("hugectl") is None:
        raise TlbcostError("hugectl is not installed", hints.install("hugectl"), CANNOT_MEASURE)
    kinds = {option.partition("=")[0] for option in options}
    sizes = [option.partition("=")[2] for option in options if "=" in option]
    size = _size(sizes[0], text) if sizes else None
    pool = _check_pool_size(text, size)
    segments = kinds & {"--bss", "--data", "--text"}
    reaches: list[MemoryScope] = []
    reaches += ["malloc"] if kinds & {"--heap", "--thp"} else []
    reaches += ["shared"] if "--shm" in kinds else []
    reaches += ["segments"] if segments else []
    if not reaches:
        raise TlbcostError(
            f"{text} asks for no huge pages", "--with 'hugectl --heap', --shm or --bss", USAGE
        )
    environment: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    version = machine.glibc_version()
    if "--heap" in kinds and version is not None and version >= machine.FIRST_WITH_HUGETLB:
        environment[TUNABLES] = f"{machine.HUGETLB_TUNABLE}={2 if size is None else size}"
        notes = (
            f"hugectl --heap alone does nothing on glibc {version[0]}.{version[1]}, which lacks "
            f"the hook that it needs: {TUNABLES}={environment[TUNABLES]} was set with it",
        )
    settings: tuple[tuple[str, str], ...] = ()
    user = calling_user()
    if "--shm" in kinds and user is not None:
        # Segments of huge pages are for root and this group.
        settings = ((_SHM_GROUP, str(user.gid)),)
    elif kinds == {"--thp"} and thp_mode() == "never":
        settings = ((f"{THP}/enabled", "madvise"),)
    return Method(
        text,
        "libhugetlbfs maps " + " and ".join(_REMAPPED[each] for each in reaches)
        + f" onto {units.size(pool)} pages of the pool",
        reaches[0] if len(reaches) == 1 else "all",
        pool,
        environment,
        ("hugectl", *options),
        None if kinds == {"--thp"} else pool,
        bool(segments),
        settings,
        notes,
    )  # fmt: skip


def _environment(name: str, assignments: list[str]) -> Method:
    variables = dict(each.split("=", 1) for each in assignments if "=" in each)
    if len(variables) != len(assignments) or not variables or "" in variables:
        raise TlbcostError(
            f"{name} sets no environment variable",
            "--with env:NAME=VALUE; of several: --with 'env:NAME=VALUE NAME=VALUE'",
            USAGE,
        )
    _check_thp(name)
    return Method(
        name,
        f"transparent huge pages by the environment: {shlex.join(assignments)}",
        "malloc",
        huge_page_bytes(),
        variables,
        settings=_on_request(),
    )


def _check_thp(name: str) -> None:
    if thp_mode() is None:
        raise TlbcostError(
            f"{name}: this kernel has no transparent huge pages",
            "--with glibc-hugetlb takes pages from a pool",
            CANNOT_MEASURE,
        )


def _check_pool_size(name: str, size: int | None) -> int:
    """The page size; of the default pool for None. Raises TlbcostError if there is no such pool."""
    pool = size or default_page_bytes() or huge_page_bytes()
    if pool is None or pool not in huge_pages.sizes():
        raise TlbcostError(
            f"{name}: this kernel has no pool of "
            + (f"{units.size(pool)} pages" if pool else "huge pages"),
            f"ls {POOLS}; another size may need hugepagesz= on the kernel's command line",
            CANNOT_MEASURE,
        )
    return pool


def _size(text: str, name: str) -> int:
    found = re.fullmatch(r"(\d{1,15})([KMG]?)(?:i?B)?", text.upper().replace("IB", ""))
    n_bytes = int(found[1]) * _SUFFIXES[found[2]] if found else 0
    if n_bytes < 4096 or n_bytes & (n_bytes - 1):
        raise TlbcostError(f"{name}: not a page size: {text}", "a size such as 64K or 2M", USAGE)
    return n_bytes
