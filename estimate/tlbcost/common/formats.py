# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tables are there, and what are their columns? doc/format.md says what they mean."""

from __future__ import annotations

from tlbcost.common.table import TableFormat


def _format(kind: str, columns: str) -> TableFormat:
    """`kind` as in the first line of the table: its name and version."""
    name, version = kind.split()
    return TableFormat(name, int(version), tuple(columns.split()))


SAMPLES = _format(
    "samples 2", "probe page_size_bytes layout spacing_bytes access lines repetition ns packed_ns"
)
CALIBRATION = _format(
    "calibration 2", "quantity page_size_bytes access pages value low high samples"
)
CURVE = _format(
    "curve 2", "probe page_size_bytes layout spacing_bytes access lines ns low_ns high_ns"
)
COUNTS = _format("counts 1", "page_size_bytes access l1_tlb_misses stlb_hits stlb_misses")
WINDOWS = _format("windows 1", "thread start references base_cycles huge_cycles")
PLACEMENT = _format(
    "placement 1",
    "page thread written accesses_0 accesses_1 accesses_2 accesses_3 accesses_4 accesses_5 "
    "accesses_6 accesses_7",
)
TOUCHES = _format("touches 1", "page thread kind")
MAPPINGS = _format(
    "mappings 1",
    "kind code name variable stack device most_bytes touched_pages touched_huge_pages "
    "base_stlb_hits base_stlb_misses huge_stlb_hits huge_stlb_misses base_fetch_stlb_hits "
    "base_fetch_stlb_misses huge_fetch_stlb_hits huge_fetch_stlb_misses modelled_base_stlb_hits "
    "modelled_base_stlb_misses waited_base_cycles modelled_huge_stlb_hits "
    "modelled_huge_stlb_misses waited_huge_cycles",
)
CODE = _format(
    "code 1",
    "program address object function file line base_stlb_hits base_stlb_misses huge_stlb_hits "
    "huge_stlb_misses base_fetch_stlb_hits base_fetch_stlb_misses huge_fetch_stlb_hits "
    "huge_fetch_stlb_misses",
)
STACKS = _format("stacks 1", "stack base_stlb_misses huge_stlb_misses")
FRAMES = _format("frames 1", "stack depth object function file line")
PHASES = _format(
    "phases 1", "start base_stlb_hits base_stlb_misses huge_stlb_hits huge_stlb_misses"
)
VIEWS = _format("views 1", "view access l1_tlb_misses stlb_hits stlb_misses")
TIMINGS = _format("timings 1", "window view references cycles")
COPIES = _format(
    "copies 1",
    "window pid tid at_ns at_cpu_ns stands_for_ns user_ns result error pause_ns clone_ns restarted "
    "rewound rseq_aborted resident_bytes faults lived_ns recorded added_faults",
)
COPY_WINDOWS = _format(
    "copy_windows 1",
    "window pid tid at_cpu_ns warm_references references instructions ended call stops translated "
    "stepped replayed timed_references base_cycles huge_cycles",
)
SLICES = _format(
    "slices 1",
    "window slice arm turn outcome call warm_ns time_ns faults stops anonymous_bytes huge_bytes "
    "changed_pages different_pages",
)
COPY_COUNTS = _format(
    "copy_counts 1", "window page_size_bytes side l1_misses stlb_hits stlb_misses unknown_misses"
)
COPY_VIEW_CYCLES = _format("copy_view_cycles 1", "window view cycles")
COPY_MAPPINGS = _format(
    "copy_mappings 1",
    "mapping pid start end offset major minor inode writable executable shared",
)
COPY_MEMORY = _format(
    "copy_memory 1",
    "window mapping base_data_hits base_data_walks huge_data_hits huge_data_walks base_fetch_hits "
    "base_fetch_walks huge_fetch_hits huge_fetch_walks base_waited_cycles huge_waited_cycles",
)
COPY_CODE = _format(
    "copy_code 1",
    "window mapping address base_data_hits base_data_walks huge_data_hits huge_data_walks "
    "base_fetch_hits base_fetch_walks huge_fetch_hits huge_fetch_walks",
)
COPY_STACKS = _format("copy_stacks 1", "window stack address base_walks huge_walks")
COPY_FRAMES = _format("copy_frames 1", "stack below mapping address")
COPY_DRAM = _format("copy_dram 1", "window page accesses")
COPY_CACHES = _format("copy_caches 1", "window l2_misses walk_l2_misses")
RUN = _format(
    "run 2",
    "wall_ns user_ns system_ns minor_faults major_faults max_rss_bytes waited_ns exit_code signal "
    "exec_errno",
)
REGION = _format("region 1", "begins ends wall_ns user_ns system_ns minor_faults major_faults")
COUNTERS = _format(
    "counters 1",
    "end_ns event group count enabled_ns running_ns state errno encoded_by type config config1",
)
COUNTED = _format("counted 1", "role access page_size_bytes event count running_fraction run state")
PUBLISHED = _format(
    "published 1",
    "source machine sockets workload walk_share_4k walk_share_2m measured_fraction "
    "informed_fraction status",
)
SWITCHES = _format("switches 2", "program code memory owner needs form text words source")
SUITE = _format("suite 1", "program name method")
PUBLISHED_MACHINES = _format(
    "published_machines 2", "source cpu core reads size_bytes page_size_bytes quantity value"
)
PUBLISHED_PRODUCTS = _format("published_products 1", "source cpu ghz l3_bytes l3_cycles memory_ns")
MACHINE = _format("machine 2", "level page_size_bytes entries ways shared source verified range")
DESCRIPTORS = _format("descriptors 1", "descriptor level page_size_bytes entries ways")
ENCODING = _format("encoding 1", "spec type config config1 precise encoded_by error")
EVENTS = _format("events 1", "role access page_size_bytes event type code config1 libpfm4 source")
TRIALS = _format(
    "trials 1",
    "program method pair base_wall_ns base_user_ns base_system_ns base_minor_faults "
    "base_max_rss_bytes huge_wall_ns huge_user_ns huge_system_ns huge_minor_faults "
    "huge_max_rss_bytes resident_bytes huge_bytes",
)
OVERLAP = _format(
    "overlap 1",
    "pages chains compute update base_ns base_low_ns base_high_ns huge_ns huge_low_ns huge_high_ns "
    "modelled_base_ns modelled_huge_ns isolated_pages",
)
PATTERN = _format(
    "pattern 1",
    "pattern page_size_bytes size_bytes chunks stride_bytes offset_bytes draws lines pages_4k "
    "pages_2m pages_1g resident_bytes proven_bytes accesses elapsed_ns cycles_per_ns",
)
THP = _format(
    "thp 1",
    "exit_code signal exec_errno anonymous_bytes huge_bytes processes requests filtered disabled "
    "ptraced left_processes",
)
THP_PROCESS = _format(
    "thp_process 1",
    "anonymous_before_bytes huge_before_bytes anonymous_bytes huge_bytes requests complete",
)
PAGE_SIZES = _format(
    "page_sizes 1", "source machine pattern page_size_bytes cycles time_ns accesses ratio status"
)

ALL = tuple(each for each in tuple(globals().values()) if isinstance(each, TableFormat))
