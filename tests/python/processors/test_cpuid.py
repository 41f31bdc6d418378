# SPDX-License-Identifier: GPL-2.0-or-later
"""Are raw CPUID words decoded as the manuals lay out their bits, and garbage as nothing?"""

from __future__ import annotations

import pytest
from tlbcost.common import formats, paths
from tlbcost.common.formats import read_table
from tlbcost.processors.cpuid import ReportedCache, ReportedTlb, decode

K4, M2, M4, G1 = 4 << 10, 2 << 20, 4 << 20, 1 << 30
NOTHING = "00000000 00000000 00000000 00000000"


def tlbs(raw: dict[str, str]) -> dict[tuple[str, int], tuple[int, int | None]]:
    found = decode(raw).tlbs
    shapes = {(tlb.level, tlb.page_size_bytes): (tlb.entries, tlb.ways) for tlb in found}
    assert len(shapes) == len(found)
    return shapes


def test_leaf_2_by_descriptor() -> None:
    # 63: data 2M/4M 32 4-way and 1G 4 4-way; 03: data 4K 64 4-way; 76: code 2M/4M 8, full;
    # ff: see leaf 4; b5: code 4K 64 8-way; f0: prefetch; c3: shared 4K/2M 1536 6-way, 1G 16 4-way.
    shapes = tlbs({"cpuid_2_0": "76036301 00f0b5ff 00000000 00c30000"})
    assert shapes == {
        ("dtlb", M2): (32, 4), ("dtlb", M4): (32, 4), ("dtlb", G1): (4, 4), ("dtlb", K4): (64, 4),
        ("itlb", M2): (8, 8), ("itlb", M4): (8, 8), ("itlb", K4): (64, 8),
        ("stlb", K4): (1536, 6), ("stlb", M2): (1536, 6), ("stlb", G1): (16, 4),
    }  # fmt: skip


def test_leaf_2_of_two_data_tlbs_the_smaller_is_the_first_level() -> None:
    # Core 2: 57: data 4K 16 4-way; 56: data 4M 16 4-way; b4: data 4K 256 4-way; 05: data 4M 32.
    shapes = tlbs({"cpuid_2_0": "05b0b401 00005657 00000000 2cb43049"})
    assert shapes["dtlb", K4] == (16, 4)
    assert shapes["dtlb", M4] == (16, 4)
    assert shapes["stlb", M4] == (32, 4)
    assert shapes["itlb", K4] == (128, 4)


def test_leaf_2_words_with_bit_31_and_the_count_in_al_tell_nothing() -> None:
    # 03 stands in AL, and in a word whose bit 31 is set.
    assert decode({"cpuid_2_0": "00000003 80000003 00000000 00000000"}).tlbs == ()


def test_leaf_18() -> None:
    def sub(sizes: int, ways: int, sets: int, kind: int, level: int, full: int = 0) -> str:
        return f"00000000 {ways << 16 | sizes:08x} {sets:08x} {full << 8 | level << 5 | kind:08x}"

    raw = {
        "cpuid_18_0": "00000008 00000000 00000000 00000000",
        "cpuid_18_1": sub(0b0001, 8, 32, 2, 1),
        "cpuid_18_2": sub(0b0110, 8, 4, 2, 1),
        # In hexadecimal by hand: 6 ways, 4K; 16 sets; load only (4), level 1 (1 << 5).
        "cpuid_18_3": "00000000 00060001 00000010 00000024",
        "cpuid_18_4": sub(0b0110, 4, 8, 4, 1),
        # 16 ways, all sizes; 1 set; store only, level 1, fully associative: 5 | 1 << 5 | 1 << 8.
        "cpuid_18_5": "00000000 0010000f 00000001 00000125",
        "cpuid_18_6": sub(0b0111, 8, 128, 3, 2),
        "cpuid_18_7": sub(0b1001, 8, 128, 3, 2),
        "cpuid_18_8": NOTHING,
    }
    assert tlbs(raw) == {
        ("itlb", K4): (256, 8), ("itlb", M2): (32, 8), ("itlb", M4): (32, 8),
        ("dtlb", K4): (96, 6), ("dtlb", M2): (32, 4), ("dtlb", M4): (32, 4),
        ("dtlb_store", K4): (16, 16), ("dtlb_store", M2): (16, 16), ("dtlb_store", M4): (16, 16),
        ("dtlb_store", G1): (16, 16),
        # Two structures hold 4 KiB pages.
        ("stlb", K4): (2048, 16), ("stlb", M2): (1024, 8), ("stlb", M4): (1024, 8),
        ("stlb", G1): (1024, 8),
    }  # fmt: skip


def test_leaf_18_goes_before_leaf_2() -> None:
    raw = {"cpuid_2_0": "76036301 00f0b5ff 00000000 00c30000",
           "cpuid_18_1": "00000000 00060001 00000010 00000024"}  # fmt: skip
    assert tlbs(raw) == {("dtlb", K4): (96, 6)}


def test_amd() -> None:
    raw = {
        "cpuid_2_0": NOTHING,
        # 48h = 72 entries, ffh: fully associative, for data; 40h = 64 for code.
        "cpuid_80000005_0": "ff48ff40 ff48ff40 20080140 20080140",
        # 2M data: ways code 9 (not decode there), 0xc00 = 3072; code: 4 (4-way), 0x200 = 512.
        # 4K data: ways code 6 (8-way), 0xc00; code: 5 (6-way), 0x200.
        "cpuid_80000006_0": "9c004200 6c005200 04006140 01009140",
        # 1G: data and code fully associative (f), 72 and 64; second level data f, 64.
        "cpuid_80000019_0": "f048f040 f0400000 00000000 00000000",
    }
    assert tlbs(raw) == {
        ("dtlb", M2): (72, 72), ("itlb", M2): (64, 64),
        ("dtlb", K4): (72, 72), ("itlb", K4): (64, 64),
        ("stlb", M2): (3072, None), ("stlb", K4): (3072, 8),
        ("dtlb", G1): (72, 72), ("itlb", G1): (64, 64), ("stlb", G1): (64, 64),
    }  # fmt: skip


def test_amd_second_level_counted_by_32() -> None:
    # The words of an EPYC 9655 (Zen 5).
    raw = {
        "cpuid_80000006_0": "40802040 60804040 04008140 08009140",
        "cpuid_80000019_0": "f060f040 40200000 00000000 00000000",
        "cpuid_80000021_0": "d93fffcf 00080382 00000000 00000000",
    }
    assert tlbs(raw) == {
        ("stlb", M2): (4096, 4), ("stlb", K4): (4096, 8), ("stlb", G1): (1024, 4),
        ("dtlb", G1): (96, 96), ("itlb", G1): (64, 64),
    }  # fmt: skip


def test_amd_unified_second_level_is_in_the_lower_halves() -> None:
    raw = {"cpuid_80000006_0": "00000000 00004200 02008140 00000000"}
    assert tlbs(raw) == {("stlb", K4): (512, 4)}


def test_caches_of_leaf_4_and_of_amd() -> None:
    # Ways - 1 in 31:22, partitions - 1 in 21:12, line - 1 in 11:0; sets - 1 in ECX.
    # 12 ways x 1 x 64 x 64 sets = 48 KiB; 8 x 64 x 64 = 32 KiB; 16 x 64 x 2048 = 2 MiB.
    words = {
        "0": "04000121 02c0003f 0000003f 00000000",
        "1": "04000122 01c0003f 0000003f 00000000",
        "2": "04000143 03c0003f 000007ff 00000000",
        "3": NOTHING,
    }
    expected = (
        ReportedCache(1, "data", 48 << 10),
        ReportedCache(1, "instruction", 32 << 10),
        ReportedCache(2, "unified", 2 << 20),
    )
    assert decode({f"cpuid_4_{sub}": text for sub, text in words.items()}).caches == expected
    assert decode({f"cpuid_8000001d_{sub}": text for sub, text in words.items()}).caches == expected


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ({}, "no CPUID instruction"),
        # As on a guest whose hypervisor masks leaf 0x18: fe refers there.
        ({"cpuid_2_0": "00feff01 000000f0 00000000 00000000", "cpuid_18_0": NOTHING},
         "refers to leaf 0x18"),
        ({"cpuid_2_0": NOTHING, "cpuid_18_0": NOTHING, "cpuid_80000005_0": NOTHING,
          "cpuid_80000006_0": NOTHING, "cpuid_80000019_0": NOTHING, "cpuid_4_0": NOTHING},
         "nothing about the TLBs"),
    ],
)  # fmt: skip
def test_what_is_masked_is_not_reported(raw: dict[str, str], why: str) -> None:
    found = decode(raw)
    assert (found.tlbs, found.caches) == ((), ())
    assert found.silence is not None
    assert why in found.silence


@pytest.mark.parametrize(
    "raw",
    [
        {"cpuid_2_0": "garbage"},
        {"cpuid_2_0": "76036301 00f0b5ff 00000000"},
        {"cpuid_2_0": "0x76036301 00f0b5ff 00000000 00c3000g"},
        {"cpuid_2_0": "-6036301 00f0b5ff 00000000 00000000"},
        {"cpuid_two_0": "76036301 00f0b5ff 00000000 00000000"},
        {"base_page_bytes": "4096"},
        # No ways, no sets, no page size, an unknown kind, a third level.
        {"cpuid_18_1": "00000000 00000001 00000010 00000021",
         "cpuid_18_2": "00000000 00060001 00000000 00000021",
         "cpuid_18_3": "00000000 00060000 00000010 00000021",
         "cpuid_18_4": "00000000 00060001 00000010 0000003f",
         "cpuid_18_5": "00000000 00060001 00000010 00000063"},
        {"cpuid_80000005_0": "ff00ff00 ff00ff00 00000000 00000000"},
        # Disabled: ways code 0.
        {"cpuid_80000006_0": "0c000200 0c000200 00000000 00000000"},
        {"cpuid_4_0": "00000124 02c0003f 0000003f 00000000"},
    ],
)  # fmt: skip
def test_garbage_tells_nothing(raw: dict[str, str]) -> None:
    found = decode(raw)
    assert (found.tlbs, found.caches) == ((), ())


def test_the_descriptors_are_each_there_once_and_make_whole_sets() -> None:
    rows = read_table(paths.data("cpuid_descriptors.tsv"), formats.DESCRIPTORS).records()
    keys = [(row["descriptor"], row["page_size_bytes"]) for row in rows]
    assert len(keys) == len(set(keys))
    for row in rows:
        assert row["page_size_bytes"] in {str(size) for size in (K4, M2, M4, G1)}
        if row["ways"] is not None:
            assert int(str(row["entries"])) % int(row["ways"]) == 0, row
    # Marks and bytes for caches are no TLBs.
    assert not {"00", "f0", "fe", "ff", "2c"} & {row["descriptor"] for row in rows}


def test_every_descriptor_decodes() -> None:
    rows = read_table(paths.data("cpuid_descriptors.tsv"), formats.DESCRIPTORS).records()
    for row in rows:
        raw = {"cpuid_2_0": f"0000{row['descriptor']}01 00000000 00000000 00000000"}
        ways = None if row["ways"] is None else int(row["ways"])
        size, entries = int(str(row["page_size_bytes"])), int(str(row["entries"]))
        assert ReportedTlb(row["level"], size, entries, ways) in decode(raw).tlbs  # type: ignore[arg-type]
