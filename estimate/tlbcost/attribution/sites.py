# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of the frames that mapped memory is where the program allocated it?

The innermost one that belongs neither to an allocator nor to its library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tlbcost.simulator.memory_tables import SourceLocation

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


def is_by_malloc(stack: Sequence[SourceLocation]) -> bool | None:
    """Whether a call of malloc mapped memory, by its frames; None: they are unknown."""
    if not stack:
        return None
    return any(frame.function and _MALLOC.fullmatch(frame.function) for frame in stack)


def allocation_site(stack: Sequence[SourceLocation]) -> SourceLocation | None:
    """The frame of a stack, innermost first, in which the program allocated; None: none."""
    named = [frame for frame in stack if frame.object or frame.function]
    for frame in named:
        if not _allocates(frame):
            return frame
    # All frames are a library's own: the outermost call says most about its purpose.
    return named[-1] if named else None


def words(site: SourceLocation) -> str:
    """'function (file:line)', or the known part of it."""
    if site.variable is not None:
        return site.variable
    file = (site.object or "").rpartition("/")[2]
    if site.function is None:
        return file or "unknown code"
    if site.file is not None and site.line is not None:
        return f"{site.function} ({site.file}:{site.line})"
    return f"{site.function} (in {file})" if file else site.function


def _allocates(frame: SourceLocation) -> bool:
    library = (frame.object or "").rpartition("/")[2]
    return bool(
        _LIBRARIES.fullmatch(library)
        or (frame.function and _FUNCTIONS.fullmatch(frame.function))
        or (frame.file and _HEADERS.fullmatch(frame.file))
    )
