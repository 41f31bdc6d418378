# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tables are there, and what are their columns? doc/format.md says what they mean."""

from __future__ import annotations

from tlbcost.common.table import TableFormat

SAMPLES = TableFormat(
    "samples",
    2,
    ("probe", "page_size_bytes", "layout", "spacing_bytes", "access", "lines", "repetition", "ns",
     "packed_ns"),
)  # fmt: skip
CALIBRATION = TableFormat(
    "calibration",
    2,
    ("quantity", "page_size_bytes", "access", "pages", "value", "low", "high", "samples"),
)
CURVE = TableFormat(
    "curve",
    2,
    ("probe", "page_size_bytes", "layout", "spacing_bytes", "access", "lines", "ns", "low_ns",
     "high_ns"),
)  # fmt: skip
COUNTS = TableFormat(
    "counts", 1, ("page_size_bytes", "access", "l1_tlb_misses", "stlb_hits", "stlb_misses")
)
WINDOWS = TableFormat("windows", 1, ("thread", "start", "references", "base_cycles", "huge_cycles"))
PLACEMENT = TableFormat(
    "placement", 1, ("page", "thread", "written", *(f"accesses_{i}" for i in range(8)))
)
TOUCHES = TableFormat("touches", 1, ("page", "thread", "kind"))
MAPPINGS = TableFormat(
    "mappings",
    1,
    ("kind", "code", "name", "variable", "stack", "device", "most_bytes", "touched_pages",
     "touched_huge_pages", "base_stlb_hits", "base_stlb_misses", "huge_stlb_hits",
     "huge_stlb_misses", "base_fetch_stlb_hits", "base_fetch_stlb_misses", "huge_fetch_stlb_hits",
     "huge_fetch_stlb_misses", "modelled_base_stlb_hits", "modelled_base_stlb_misses",
     "waited_base_cycles", "modelled_huge_stlb_hits", "modelled_huge_stlb_misses",
     "waited_huge_cycles"),
)  # fmt: skip
CODE = TableFormat(
    "code",
    1,
    ("program", "address", "object", "function", "file", "line", "base_stlb_hits",
     "base_stlb_misses", "huge_stlb_hits", "huge_stlb_misses", "base_fetch_stlb_hits",
     "base_fetch_stlb_misses", "huge_fetch_stlb_hits", "huge_fetch_stlb_misses"),
)  # fmt: skip
STACKS = TableFormat("stacks", 1, ("stack", "base_stlb_misses", "huge_stlb_misses"))
FRAMES = TableFormat("frames", 1, ("stack", "depth", "object", "function", "file", "line"))
PHASES = TableFormat(
    "phases",
    1,
    ("start", "base_stlb_hits", "base_stlb_misses", "huge_stlb_hits", "huge_stlb_misses"),
)
VIEWS = TableFormat("views", 1, ("view", "access", "l1_tlb_misses", "stlb_hits", "stlb_misses"))
TIMINGS = TableFormat("timings", 1, ("window", "view", "references", "cycles"))
RUN = TableFormat(
    "run",
    1,
    ("wall_ns", "user_ns", "system_ns", "minor_faults", "major_faults", "max_rss_bytes",
     "exit_code", "signal", "exec_errno"),
)  # fmt: skip
COUNTERS = TableFormat(
    "counters",
    1,
    ("end_ns", "event", "group", "count", "enabled_ns", "running_ns", "state", "errno",
     "encoded_by", "type", "config", "config1"),
)  # fmt: skip
COUNTED = TableFormat(
    "counted",
    1,
    ("role", "access", "page_size_bytes", "event", "count", "running_fraction", "run", "state"),
)
HITS = TableFormat(
    "hits",
    1,
    ("event", "pid", "object", "mode", "offset_bytes", "data", "data_tlb", "samples", "weight"),
)
PUBLISHED = TableFormat(
    "published",
    1,
    ("source", "machine", "sockets", "workload", "walk_share_4k", "walk_share_2m",
     "measured_fraction", "informed_fraction", "status"),
)  # fmt: skip
SWITCHES = TableFormat(
    "switches", 1, ("program", "memory", "needs", "form", "text", "words", "source")
)
SUITE = TableFormat("suite", 1, ("program", "name", "method"))
MACHINE = TableFormat(
    "machine", 1, ("level", "page_size_bytes", "entries", "ways", "source", "verified")
)
DESCRIPTORS = TableFormat(
    "descriptors", 1, ("descriptor", "level", "page_size_bytes", "entries", "ways")
)
ENCODING = TableFormat(
    "encoding", 1, ("spec", "type", "config", "config1", "precise", "encoded_by", "error")
)
EVENTS = TableFormat(
    "events",
    1,
    ("role", "access", "page_size_bytes", "event", "type", "code", "config1", "libpfm4", "source"),
)
TRIALS = TableFormat(
    "trials",
    1,
    ("program", "method", "pair",
     "base_wall_ns", "base_user_ns", "base_system_ns", "base_minor_faults", "base_max_rss_bytes",
     "huge_wall_ns", "huge_user_ns", "huge_system_ns", "huge_minor_faults", "huge_max_rss_bytes",
     "resident_bytes", "huge_bytes"),
)  # fmt: skip
OVERLAP = TableFormat(
    "overlap",
    1,
    ("pages", "chains", "compute", "update",
     "base_ns", "base_low_ns", "base_high_ns", "huge_ns", "huge_low_ns", "huge_high_ns",
     "modelled_base_ns", "modelled_huge_ns", "isolated_pages"),
)  # fmt: skip
PATTERN = TableFormat(
    "pattern",
    1,
    ("pattern", "page_size_bytes", "size_bytes", "chunks", "stride_bytes", "offset_bytes", "draws",
     "lines", "pages_4k", "pages_2m", "pages_1g", "resident_bytes", "proven_bytes", "accesses",
     "elapsed_ns", "cycles_per_ns"),
)  # fmt: skip
PAGE_SIZES = TableFormat(
    "page_sizes",
    1,
    ("source", "machine", "pattern", "page_size_bytes", "cycles", "time_ns", "accesses", "ratio",
     "status"),
)  # fmt: skip

ALL = (
    SAMPLES, CALIBRATION, CURVE, COUNTS, WINDOWS, PLACEMENT, TOUCHES, MAPPINGS, CODE, STACKS,
    FRAMES, PHASES, VIEWS, TIMINGS, RUN, COUNTERS, COUNTED, HITS, PUBLISHED, SWITCHES, SUITE,
    MACHINE, DESCRIPTORS, ENCODING, EVENTS, TRIALS, OVERLAP, PATTERN, PAGE_SIZES,
)  # fmt: skip
