# SPDX-License-Identifier: GPL-2.0-or-later
"""Page walks by memory and by code: their shares, and their part of an estimate's JSON.

One RegionShare is one mapping, or all of the same kind and name in one program. A figure that was
not obtained is None. Shares of all regions of an estimate sum to the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Literal

from tlbcost.common import units
from tlbcost.common.document import Part, amount, doc, part_of, portion
from tlbcost.common.units import Interval
from tlbcost.memory.eligibility import Backing, MemoryKind
from tlbcost.simulator.memory_tables import (
    Block,
    ImageAttribution,
    ImageWindows,
    SiteGain,
    SourceLocation,
)

# By the names of their files: C and C++ libraries, loaders and allocators that replace malloc.
_LIBRARIES = re.compile(
    r"(ld-linux|ld-musl|ld64|libc|libc-\d|libpthread|librt|libdl|libm|libstdc\+\+|libc\+\+|libgcc_s"
    r"|libjemalloc|libtcmalloc|libmimalloc|libhugetlbfs|vgpreload)\b.*"
)
# By the names of functions: linked statically, or wrapped by the program or its interpreter.
_FUNCTIONS = re.compile(
    r"operator new.*|<?(std|alloc|core|hashbrown)::.*|__gnu_cxx::.*|__(rust|rdl|rg)_.*"
    r"|_?_?(x|g_|rpl_|je_|tc_|mi_|scalable_)?"
    r"(malloc|calloc|realloc|reallocarray|valloc|memalign|aligned_alloc|posix_memalign|mmap|mmap64"
    r"|mremap|brk|sbrk|strdup)(_n|0|0_n|_array|_aligned|_zero)?"
    r"|_?Py(Mem|Object|DataMem)_\w*|_Py\w*(Malloc|Calloc|Realloc|Arena)\w*|default_(malloc|calloc)"
    r"|(allocate|new)_(from_new_)?(pool|arena)|pymalloc_\w+"
)
# By the names of files: what C++ inlines of its containers.
_HEADERS = re.compile(
    r"(stl_\w+|new_allocator|alloc_traits|allocator|basic_string|hashtable|hashtable_policy"
    r"|shared_ptr\w*|unique_ptr|unordered_(map|set)|memory_resource)\.h|\w+\.tcc"
)
# malloc itself, and other functions by which the C library maps memory for its callers.
_MALLOC = re.compile(
    r"(__libc_|_int_)?(malloc|calloc|realloc|reallocarray|memalign|aligned_alloc|posix_memalign"
    r"|valloc|pvalloc)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSite(SourceLocation):
    """Where memory was allocated, and that call's share of the walks on the memory."""

    misses_fraction: Annotated[float, portion("share of the memory's own walks")]


@dataclass(frozen=True, slots=True)
class RegionShare:
    """One mapping's part of the misses, the time and the gain.

    `name`: the path, or `[heap]`, `[stack]`, `[bss]`, `anonymous memory`. `touched_bytes`: base
    pages that the program accessed; `touched_huge_bytes`: what they use on huge pages, by the
    regions that contain them. `misses_fraction`, `huge_misses_fraction`: of all walks on base
    pages, and on huge ones. `time_fraction`: of the time in translation on base pages.
    `gain_fraction`: part of the run time that huge pages for this memory alone should save.
    `sites`: where it was allocated, with their share of its misses, most first. `samples`: the
    number behind `misses_fraction`, with its 95 % interval; None: it was simulated.
    `malloc_fraction`: of its walks, those on memory that calls of malloc mapped; None: the calls
    are unknown.
    """

    program: Annotated[str, doc("the executable")]
    kind: Annotated[MemoryKind, doc("what kind of memory it is")]
    name: Annotated[str, doc("its path or name")]
    size_bytes: Annotated[int | None, amount("mapped; null: not known")]
    touched_bytes: Annotated[int | None, amount("base pages that it touched")]
    touched_huge_bytes: Annotated[
        int | None, amount("what the touched memory would use on huge pages")
    ]
    code: Annotated[bool, doc("it is code")]
    misses_fraction: Annotated[
        float | None,
        portion(
            "of all page walks on base pages; of samples: of the loads and stores that missed, "
            "null if there are too few"
        ),
    ]
    huge_misses_fraction: Annotated[float | None, portion("of all page walks on huge pages")]
    time_fraction: Annotated[float | None, portion("of the time in translation on base pages")]
    huge_time_fraction: Annotated[float | None, portion("of the time in translation on huge pages")]
    gain_fraction: Annotated[
        Interval | None,
        doc(
            "part of expected_fraction from huge pages for this memory alone; of samples: as if "
            "each miss cost the same"
        ),
    ]
    sites: Annotated[tuple[AllocationSite, ...], doc("where it was allocated, most first")] = ()
    backed: Annotated[Backing | None, doc("from smaps, while the program ran natively")] = None
    samples: Annotated[int | None, amount("of its misses; null: it was simulated")] = None
    misses_interval: Annotated[
        Interval | None, doc("of samples: the 95 % interval of misses_fraction")
    ] = None
    malloc_fraction: Annotated[
        float | None,
        portion(
            "of its page walks, those on memory that calls of malloc mapped; null: the calls are "
            "not known"
        ),
    ] = None

    @property
    def mapped_bytes(self) -> int:
        """`size_bytes` of memory whose size is known; remedies are for no other."""
        assert self.size_bytes is not None
        return self.size_bytes


CostedBy = Literal["windows", "prices"]
SIMULATION = "simulation"


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code and its share of all walks on base pages.

    `walks`, `huge_walks`: its number on each page size, of data and of fetches; None: not known.
    `samples`: the number that the others are estimated from; None: they are simulated.
    """

    site: Annotated[SourceLocation, doc("where it is")]
    walks_fraction: Annotated[float | None, portion("of all page walks")]
    walks: Annotated[int, amount("of samples: the misses that they stand for")]
    huge_walks: Annotated[int | None, amount("page walks on huge pages")]
    samples: Annotated[int | None, amount("null: it was simulated")] = None


@dataclass(frozen=True, slots=True)
class Attribution:
    """Walks by memory and code. `costed_by`: the basis of times; None: there are none.

    `windows`: what was modelled of the images. `other_fraction`: the share of the walks in unknown
    memory, which is a region as well. `source`: what found the misses.
    """

    regions: tuple[RegionShare, ...]
    code: tuple[CodeLine, ...]
    images: tuple[ImageAttribution, ...]
    costed_by: CostedBy | None
    other_fraction: float
    windows: tuple[ImageWindows, ...] = ()
    source: str = SIMULATION


def on_huge_bytes(touched_bytes: int, huge_pages: int, mapped_bytes: int, huge_bytes: int) -> int:
    """Bytes on huge pages of touched memory: whole regions, at most what is mapped."""
    if mapped_bytes < huge_bytes:
        return touched_bytes
    return max(touched_bytes, min(huge_pages * huge_bytes, mapped_bytes))


def is_by_malloc(stack: Sequence[SourceLocation]) -> bool | None:
    if not stack:
        return None
    return any(frame.function and _MALLOC.fullmatch(frame.function) for frame in stack)


def allocation_site(stack: Sequence[SourceLocation]) -> SourceLocation | None:
    """The innermost frame that belongs neither to an allocator nor to its library, if any."""
    named = [frame for frame in stack if frame.object or frame.function]
    for frame in named:
        library = (frame.object or "").rpartition("/")[2]
        if not (
            _LIBRARIES.fullmatch(library)
            or (frame.function and _FUNCTIONS.fullmatch(frame.function))
            or (frame.file and _HEADERS.fullmatch(frame.file))
        ):
            return frame
    # All frames are a library's own: the outermost call says most about its purpose.
    return named[-1] if named else None


def words(site: SourceLocation) -> str:
    if site.variable is not None:
        return site.variable
    file = (site.object or "").rpartition("/")[2]
    if site.function is None:
        return file or "unknown code"
    if site.file is not None and site.line is not None:
        return f"{site.function} ({site.file}:{site.line})"
    return f"{site.function} (in {file})" if file else site.function


# Lines of code with fewer walks than these are left out.
MOST_LINES = 100


class PhaseMisses(Part, frozen=True, kw_only=True):
    """Misses from this reference of the process image on, until the next phase."""

    start: Annotated[int, amount("number of its first reference")]
    stlb_hits: Annotated[int, amount("on base pages")]
    stlb_misses: Annotated[int, amount("page walks on base pages")]
    huge_stlb_hits: Annotated[int, amount("on huge pages")]
    huge_stlb_misses: Annotated[int, amount("page walks on huge pages")]


class ProcessPhases(Part, frozen=True, kw_only=True):
    """The phases of one process image."""

    pid: Annotated[int, amount("process number")]
    program: Annotated[str, doc("what it runs")]
    references: Annotated[int, amount("memory references in all")]
    phase_references: Annotated[int, amount("references in a phase")]
    phases: Annotated[list[PhaseMisses], doc("in their order")]


_BASE_BYTES, HUGE_BYTES = 4096, 2 << 20
_KNEE_FRACTION = 0.75
_MOST_POINTS = 20
# Of fewer blocks or walks nothing is said.
_LEAST_BLOCKS, _LEAST_WALKS = 8, 1000
# Where TLB entries hold base pages whatever is mapped, huge pages remove no walk, and make each
# cheaper.
_LEAST_REMOVED = 0.05


class CurvePoint(Part, frozen=True, kw_only=True):
    """The blocks that give most for the memory they add, up to this number."""

    blocks: Annotated[int, doc("how many", minimum=1)]
    gain_fraction: Annotated[float, portion("their part of what all blocks save")]
    growth_bytes: Annotated[
        int, amount("memory that huge pages would add there: what is not resident")
    ]


class BlockCurve(Part, frozen=True, kw_only=True):
    """Places of 2 MiB in anonymous memory with page walks, those first that save most per byte."""

    blocks: Annotated[int, doc("all of them", minimum=1)]
    growth_bytes: Annotated[int, amount("memory that they would add")]
    knee: Annotated[CurvePoint, doc("the fewest with three quarters of what all save")]
    points: Annotated[list[CurvePoint], doc("at most 20, of growing numbers of blocks")]


def added_bytes(block: Block) -> int | None:
    """Memory that a huge page adds there."""
    known = block.resident_bytes
    return None if known is None else max(HUGE_BYTES - known, 0)


def saved_walks(blocks: Sequence[Block]) -> list[float]:
    """What huge pages save in each; where they remove none, all get cheaper."""
    walks = [block.base_walks for block in blocks]
    removed = [max(block.base_walks - block.huge_walks, 0.0) for block in blocks]
    return walks if sum(removed) < _LEAST_REMOVED * sum(walks) else removed


def curve_of(blocks: Sequence[Block]) -> BlockCurve | None:
    """The curve; None where too little is known."""
    blocks = [block for block in blocks if block.resident_bytes is not None]
    if len(blocks) < _LEAST_BLOCKS or sum(block.base_walks for block in blocks) < _LEAST_WALKS:
        return None
    saved = saved_walks(blocks)
    added = [added_bytes(block) or 0 for block in blocks]
    order = sorted(
        range(len(blocks)), key=lambda i: saved[i] / (added[i] + _BASE_BYTES), reverse=True
    )
    gains, growths = accumulate(saved[i] for i in order), accumulate(added[i] for i in order)
    whole = [
        CurvePoint(blocks=n, gain_fraction=min(1.0, gain / (sum(saved) or 1)), growth_bytes=growth)
        for n, (gain, growth) in enumerate(zip(gains, growths, strict=True), start=1)
    ]
    step = -(-len(whole) // _MOST_POINTS)
    return BlockCurve(
        blocks=len(whole),
        growth_bytes=whole[-1].growth_bytes,
        knee=next(point for point in whole if point.gain_fraction >= _KNEE_FRACTION),
        points=[*whole[step - 1 : -1 : step], whole[-1]],
    )


def curve_sentence(curve: BlockCurve) -> str:
    knee = curve.knee
    text = (
        f"Of {curve.blocks} places of 2 MiB with page walks, {knee.blocks} have "
        f"{units.percent(knee.gain_fraction)} of what huge pages save there"
    )
    if not curve.growth_bytes:
        return f"{text}; none adds memory."
    return (
        f"{text}, and add {units.size(knee.growth_bytes)} of the {units.size(curve.growth_bytes)} "
        "that all would add."
    )


class AttributionPart(Part, frozen=True, kw_only=True):
    """Page walks by memory and by code; shares sum to the whole."""

    source: Annotated[str, doc("what found the misses: simulation, or samples of these events")]
    costed_by: Annotated[
        CostedBy | None,
        doc(
            "the basis of times: stall cycles in modelled windows, or calibrated costs; null: "
            "samples have no times"
        ),
    ]
    other_fraction: Annotated[float, portion("of the walks, those in unknown memory")]
    memory: Annotated[tuple[RegionShare, ...], doc("memory of one kind and name in one program")]
    code: Annotated[tuple[CodeLine, ...], doc("lines of code, most walks first")]
    phases: Annotated[list[ProcessPhases], doc("when it missed")]
    blocks: Annotated[
        BlockCurve | None,
        doc("what parts of the memory give for the memory they add; null: not from copies, or few"),
    ] = None
    sites: Annotated[
        tuple[SiteGain, ...],
        doc("code that allocated anonymous memory, most gain first; empty: not recorded (--sites)"),
    ] = ()


def attribution_part(attribution: Attribution | None) -> AttributionPart | None:
    if attribution is None:
        return None
    phases = []
    for image in attribution.images:
        misses = [
            PhaseMisses(
                start=phase.start,
                stlb_hits=phase.base.hits,
                stlb_misses=phase.base.walks,
                huge_stlb_hits=phase.huge.hits,
                huge_stlb_misses=phase.huge.walks,
            )
            for phase in image.phases
        ]
        phases.append(part_of(ProcessPhases, image, phases=misses))
    return part_of(
        AttributionPart,
        attribution,
        memory=attribution.regions,
        code=attribution.code[:MOST_LINES],
        phases=phases,
        blocks=curve_of([block for image in attribution.images for block in image.blocks]),
        sites=tuple(site for image in attribution.images for site in image.sites),
    )
