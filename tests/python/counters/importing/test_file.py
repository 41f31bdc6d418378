# SPDX-License-Identifier: GPL-2.0-or-later
"""Is each form recognized with its events' names, and all else refused?"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from builders.counting import CSV, read, state, value
from builders.tree import GOLDEN, fails, there
from tlbcost.answer.estimate import estimate
from tlbcost.answer.request import EstimateRequest
from tlbcost.common.errors import TlbcostError
from tlbcost.counters.importing.file import import_file, import_files
from tlbcost.counters.importing.printed_counts import meaning
from tlbcost.processors.events import Pmu, all_pmus, load_pmu


@pytest.mark.parametrize("suffix", ["csv", "json", "txt"])
def test_what_perf_printed_here_is_read_alike_in_its_three_forms(suffix: str) -> None:
    found = import_file(GOLDEN / f"perf-stat.{suffix}", None)
    faults = {"csv": 17546, "json": 17566, "txt": 17524}[suffix]
    clock = {"csv": 114250000, "json": 106651850, "txt": 93200000}[suffix]
    assert found.values()["page_faults"] == faults
    assert found.values()["task_clock_ns"] == clock
    assert value(found, "cycles") is None
    assert state(found, "cycles") == state(found, "dTLB-load-misses") == "unsupported"
    assert "cycles" not in found.values()
    assert found.mode == "both"
    if suffix == "txt":
        assert (found.wall_ns, found.user_ns, found.system_ns) == (98921965, 58054000, 40436000)
        assert found.command == "python3 -c x=bytearray(1<<25)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("\n\n# started on Sat Nov 21 03:22:34 2026\n\n", "it is empty"),
        ("hello\n", "file:1: it is none of"),
        ("5,,cycles,1,100.00,,\n6,", "file:2: expected a count"),
        ("5,,cycles,1,900.00,,\n", "file:1: not a percentage: 900"),
        ("1.0,5,,cycles,1,100.00,,\n5,,cycles,1,100.00,,\n", "file:2: it has no time"),
        ('{"counter-value" : "5"}\n', "file:1: 'event' is missing"),
        ('{"counter-value" : "5", "event" : "cycles"', "file:1: not a JSON object"),
        ('{"counter-value" : NaN, "event" : "cycles"}', "file:1: not a JSON object"),
        ('{"counter-value" : "-5", "event" : "cycles"}', "file:1: not a count: -5"),
        ('{"counter-value" : "1e999", "event" : "cycles"}', "file:1: not a count: 1e999"),
        (f'{{"counter-value" : "{"9" * 5000}", "event" : "cycles"}}', "file:1: not a count: 9"),
        (f'{{"counter-value" : {"9" * 5000}, "event" : "cycles"}}', "file:1: "),
        ("{" * 100000, "file:1: not a JSON object"),
        ("{\n[]\n", "file:1: not a JSON object"),
        (" Performance counter stats for 'a':\n", "no event is in"),
        (" Performance counter stats for 'a':\n 5.5 cycles\n", "file:2: not a count: 5.5"),
        (" Performance counter stats for 'a':\n 1,23 cycles\n", "file:2: not a count: 1,23"),
        (" Performance counter stats for 'a':\n garbage\n", "no event is in"),
        ("CPU: x\n", "the listing has no rows"),
        ("CPU: x\nsamples| %|\n5 50.0 app\n", "file:2: 1 columns, but 0 events"),
        ("# tlbcost counted 9\n", "not a tlbcost counted table of version 1"),
    ],
)
def test_garbage_is_reported_by_file_and_line(text: str, why: str) -> None:
    with fails(re.escape(why), 1):
        read(text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="No such file"):
        import_file(tmp_path / "none", None)
    with pytest.raises(TlbcostError, match="it is a directory"):
        import_file(tmp_path, None)
    (tmp_path / "binary").write_bytes(b"PERFILE2\0\0\1")
    with pytest.raises(TlbcostError, match="binary") as error:
        import_file(tmp_path / "binary", None)
    assert "perf stat report" in (error.value.hint or "")


def test_a_pipe_is_read_once_and_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    text = (GOLDEN / "counts-walks.csv").read_bytes()
    with os.fdopen(read), os.fdopen(write, "wb") as file:
        file.write(text)
        file.close()
        found = import_file(Path(f"/dev/fd/{read}"), load_pmu("skl"))
    assert found.values()["walk_active_cycles.load"] == 7344597760
    monkeypatch.setattr("tlbcost.counters.importing.file._MOST_BYTES", 100)
    with pytest.raises(TlbcostError, match="the most"):
        import_file(GOLDEN / "counts-walks.csv", None)
    with pytest.raises(TlbcostError, match="it is a device"):
        import_file(Path("/dev/zero"), None)


def test_old_encodings_and_line_ends(tmp_path: Path) -> None:
    text = " Performance counter stats for './caf\u00e9':\r\n\r\n 1\u00a0234      cycles\r\n"
    (tmp_path / "latin").write_bytes(text.encode("latin-1"))
    found = import_file(tmp_path / "latin", None)
    assert found.values()["cycles"] == 1234
    assert found.command == "./caf\u00e9"


def test_two_outputs_in_one_file_are_two_runs() -> None:
    # A row that was cut off behind its name is one.
    assert read("5,,cycles,1,100.00,,\n5,,cyc").counts[-1].event == "cyc"
    again = CSV.replace("1000000000", "1020000000")
    found = read(f"# started on a\n\n{CSV}\n# started on b\n\n{again}")
    assert [count.run for count in found.counts] == [0] * 4 + [1] * 4
    assert found.values()["cycles"] == 1.01e9
    assert any("agree within 2.0 %" in note for note in found.notes)


ZEN4 = load_pmu("amd64_fam19h_zen4")


NAMES = {
    "cycles": "cycles",
    "cpu-cycles:u": "cycles",
    "cpu_core/cycles/u": "cycles",
    "cpu_clk_unhalted.thread": "cycles",
    "instructions:uk": "instructions",
    "inst_retired.any": "instructions",
    "ref-cycles": None,
    "dtlb_load_misses.walk_active": "walk_active_cycles.load",
    "cpu/dtlb_load_misses.walk_active/": "walk_active_cycles.load",
    "cpu/dtlb_load_misses.walk_active/ukhHGpp": "walk_active_cycles.load",
    "DTLB_LOAD_MISSES:WALK_ACTIVE:u": "walk_active_cycles.load",
    "skl::DTLB_LOAD_MISSES:WALK_ACTIVE": "walk_active_cycles.load",
    "r1001008": "walk_active_cycles.load",
    "R1001008:pp": "walk_active_cycles.load",
    "cpu/r1001008/": "walk_active_cycles.load",
    "cpu/config=0x1001008/": "walk_active_cycles.load",
    "cpu/event=0x8,umask=0x10,cmask=1,name=walks/": "walk_active_cycles.load",
    "cpu/event=0x8,umask=0x10/": "walk_pending_cycles.load",
    "cpu/event=0x8,umask=0x10,inv/": None,
    "cpu/event=0x8,umask=0x10,offcore_rsp=0x1/": None,
    "dtlb_load_misses.stlb_hit": "stlb_hits.load",
    "cpu/dtlb_load_misses.stlb_hit,cmask=0x1/": "stlb_hit_active_cycles.load",
    "dtlb_load_misses.walk_completed_2m_4m": "walks_completed.load.2M",
    "ept.walk_pending": "ept_walk_pending_cycles.any",
    "dTLB-load-misses": "walks_completed.load",
    "dTLB-store-misses:u": "walks_completed.store",
    "iTLB-load-misses": "walks_completed.fetch",
    "dTLB-loads": None,
    "page-faults": "page_faults",
    "faults:u": "page_faults",
    "minor-faults": "minor_faults",
    "cs": "context_switches",
    "task-clock:u": "task_clock_ns",
    "branch-misses": None,
    "uncore_imc/event=0x8,umask=0x10/": None,
    "uncore_cha/cycles/": None,
    "cpu_atom/cycles/": None,
    "r": None,
    "cpu//": None,
}


@pytest.mark.parametrize("foreign", NAMES)
def test_names_of_events(foreign: str) -> None:
    found = read(f'{{"counter-value" : "5", "event" : "{foreign}"}}\n')
    assert found.counts[0].name == NAMES[foreign]
    assert found.counts[0].event == foreign


@pytest.mark.parametrize("pmu", all_pmus(), ids=lambda pmu: pmu.key)
def test_every_event_of_our_tables_is_known_by_its_names(pmu: Pmu) -> None:
    for event in pmu.events:
        names = [f"r{event.code:x}"] if event.type == "raw" and event.config1 is None else []
        if event.string is not None:
            tail = event.string.rpartition("::")[2]
            names += [event.string, tail, tail.lower(), tail.lower().replace(":", ".", 1)]
        for name in names:
            found = meaning(name, pmu)
            assert found.name == event.name, name


def test_of_two_kinds_of_cores_the_named_one_counts() -> None:
    text = "233066666,,cpu_core/cycles/,9,0.43,,\n604097080,,cpu_atom/cycles/,9,99.57,,\n"
    fast, slow = load_pmu("adl_glc"), load_pmu("adl_grt")
    assert read(text, fast).values() == {"cycles": 233066666}
    assert read(text, slow).values() == {"cycles": 604097080}
    assert any("cpu_atom/cycles/ is left out" in note for note in read(text, fast).notes)
    arm = "1,,armv8_cortex_a53/cpu_cycles/,1,100,,\n2,,armv8_cortex_a72/cpu_cycles/,1,100,,\n"
    with pytest.raises(TlbcostError, match="two kinds of cores"):
        read(arm, load_pmu("arm_ac72"))


def test_amds_events_have_twelve_bits() -> None:
    text = '{"counter-value" : "5", "event" : "cpu/event=0x45,umask=0xf0/"}\n'
    by_code = read(text, ZEN4).counts[0].name
    assert by_code is not None
    assert by_code == read("5,,r0f045,1,100.00,,\n", ZEN4).counts[0].name


def test_what_a_generic_event_counts_is_said_where_the_cpu_is_known() -> None:
    known = read("5,,dTLB-load-misses,1,100.00,,\n")
    assert any("WALK_COMPLETED (0x0e08)" in note for note in known.notes)
    unknown = read("5,,dTLB-load-misses,1,100.00,,\n", None)
    assert unknown.counts[0].name == "dtlb_load_misses"
    assert unknown.pmu == "perf"
    assert any("name the CPU" in note for note in unknown.notes)
    # A raw code means nothing without the CPU.
    assert read("5,,r1001008,1,100.00,,\n", None).counts[0].name is None


# Of PEBS, whose samples hold the address; the decoded source is one that perf's authors print.
PEBS = """\
             app 77/78 [003] U         200003 mem_inst_retired.stlb_miss_loads:upp:     7f25d6d17008 [unknown] ({})      10650100842 |OP LOAD|LVL L3 or L3 hit|SNP None|TLB L2 miss|LCK No|BLK  N/A     5586adc0d309 find (/opt/app)
"""  # noqa: E501
CYCLES = (
    "             app 77/78 [003] U        2000003 cycles:upp:     5586adc0d309 find (/opt/app)\n"
)


def test_a_recording_says_which_memory_misses(tmp_path: Path) -> None:
    file = tmp_path / "samples.txt"
    file.write_text(30 * PEBS.format("[heap]") + 10 * PEBS.format("//anon") + 10 * CYCLES)
    files = (GOLDEN / "counts-walks.csv", file)
    counted, pmu, hits = import_files(files, "skl")
    assert (counted.values()["cycles"], pmu.name) == (61204981337, load_pmu("skl").name)
    assert hits is not None
    found = there(estimate(EstimateRequest(argv=(), imported=files, cpu="skl")).sampled)
    regions = [(each.program, each.name, each.misses_fraction) for each in found.regions]
    assert regions == [("/opt/app", "[heap]", 0.75), ("/opt/app", "anonymous memory", 0.25)]
    assert found.source == "samples of mem_inst_retired.stlb_miss_loads:upp"
    assert [line.site.function for line in found.code] == ["find"]
    with pytest.raises(TlbcostError, match="one recording"):
        import_files((file, file))


def test_a_recording_without_samples_is_no_count(tmp_path: Path) -> None:
    file = tmp_path / "samples.txt"
    file.write_text(CYCLES.replace("             app", "     tlbcost-run"))
    with pytest.raises(TlbcostError, match="holds no samples"):
        import_files((file,))


def test_counts_of_a_recording_alone_are_those_that_its_samples_stand_for(tmp_path: Path) -> None:
    file = tmp_path / "samples.txt"
    file.write_text(10 * CYCLES + CYCLES.replace("] U ", "] K "))
    counted, _, _ = import_files((file,), "skl")
    assert (counted.values(), counted.mode) == ({"cycles": 20000030}, "user")
