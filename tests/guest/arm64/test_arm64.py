# SPDX-License-Identifier: GPL-2.0-or-later
"""Does tlbcost work on a real arm64 kernel, emulated, with base pages of 4 and of 16 KiB?"""

from __future__ import annotations

from answers import BASE, CANNOT_MEASURE, HUGE, MIB, added, checks, code, page_bytes, said
from machine import Results


def test_the_kernels_have_the_pages_that_they_are_named_for(
    pages_4k: Results, pages_16k: Results
) -> None:
    assert page_bytes(pages_4k) == (4 << 10, 2 * MIB)
    assert page_bytes(pages_16k) == (16 << 10, 32 * MIB)


def test_doctor_says_what_is_missing_and_what_works_instead(either: Results) -> None:
    found = checks(either)
    assert found["copies"]["state"] == "missing"
    assert "only on x86-64, not on aarch64: programs run in Valgrind" in found["copies"]["finding"]
    assert found["tlbsim"]["state"] == "ok", found["tlbsim"]["finding"]
    assert "this CPU is emulated (" in found["calibration"]["finding"]
    assert found["calibration"]["blocks_estimate"]


def test_the_core_has_a_name(pages_4k: Results) -> None:
    assert checks(pages_4k)["cpu"]["values"]["cpu_name"] == "Arm Neoverse N1"


def test_an_emulators_times_are_no_costs_of_misses(either: Results) -> None:
    assert code(either, "calibrate") == CANNOT_MEASURE
    assert "cannot calibrate: this CPU is emulated (" in said(either, "calibrate")
    assert "hint: model a real CPU: tlbcost estimate --machine NAME" in said(either, "calibrate")
    assert "NA" not in either.text("calibrate.out")


def test_what_fits_the_tlb_misses_no_more_however_long_it_runs(either: Results) -> None:
    assert added(either, "few") == {BASE: 0, HUGE: 0}


def test_sve_runs_natively_and_is_refused_by_name_in_the_simulator(pages_16k: Results) -> None:
    assert code(pages_16k, "sve") == 0
    assert code(pages_16k, "sve-estimate") == 125
    words = said(pages_16k, "sve-estimate")
    assert "cannot simulate sve: an SVE instruction that the simulator does not know" in words
    assert "-march=armv8.2-a" in words
    assert "tlbcost trial" in words


def test_a_program_that_dies_of_sve_natively_is_its_own_fault(pages_4k: Results) -> None:
    assert code(pages_4k, "sve") == 128 + 4
    assert "an SVE instruction" not in said(pages_4k, "sve-estimate")


def test_a_pool_is_reserved_and_put_back(either: Results) -> None:
    _, huge_page = page_bytes(either)
    assert code(either, "pool-reserve") == 0
    assert f"4 pages are reserved, {huge_page // MIB} MiB each" in said(either, "pool-reserve")
    assert either.text("pool-reserved.out") == "4\n"
    assert code(either, "pool-restore") == 0
    assert either.text("pool-restored.out") == "0\n"
