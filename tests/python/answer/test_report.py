# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from builders.answer import (
    MACHINE,
    altered,
    estimated,
    killed,
    overlapped,
    process,
    rebuilt,
    simulated,
)
from tlbcost.accuracy.record import TrackRecord
from tlbcost.answer.advice import next_steps
from tlbcost.answer.document import to_json
from tlbcost.answer.record import Estimate
from tlbcost.answer.text import print_report
from tlbcost.answer.words import verdict_sentence
from tlbcost.common import output, units
from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.model.gain import total_interval

SCHEMA = Path(__file__).parents[3] / "data" / "schema" / "estimate.schema.json"
UNITS = ("_ns", "_bytes", "_pages", "_entries", "_fraction", "_ratio")
# Keys that hold no quantity, or a plain count.
PLAIN = {
    "schema", "tlbcost_version", "date", "argv", "path", "source", "notes", "access", "program",
    "code", "sentence", "remedy", "exit_code", "simulated_exit_code", "pid", "parent_pid",
    "threads", "entries", "ways", "minor_faults", "major_faults", "l1_tlb_misses", "stlb_hits",
    "stlb_misses", "bound_capped", "has_pmu", "thp_mode", "kernel", "governor", "hypervisor",
    "microcode", "cpu_vendor", "cpu_family", "cpu_model", "cpu_stepping", "cpu_name",
    "next_steps", "value", "low", "high", "source_kind", "programs", "inside", "here", "windows",
    "references", "sampled_references",
}  # fmt: skip


def text_of(shown: Estimate) -> str:
    file = io.StringIO()
    print_report(shown, file)
    return file.getvalue()


def bare() -> Estimate:
    """Nothing that may be missing is there."""
    c = estimated()
    kinds = ("stlb_hit_overlapped_ns", "walk_overlapped_ns", "walk_cached_ns", "fault_ns")
    none = dict.fromkeys(kinds)
    assert c.simulated is not None
    assert c.base_costs is not None
    assert c.huge_costs is not None
    assert c.given.surroundings is not None
    geometry = c.simulated.geometry
    geometry = replace(geometry, huge=replace(geometry.huge, stlb=None), sources={})
    processes = (process(), killed())
    huge = replace(c.huge_costs, stlb_hit_serial_ns=None, walk_serial_ns=None, **none)
    machine = replace(MACHINE, cpu_name=None, kernel=None, thp_mode=None, hypervisor="unknown")
    return rebuilt(
        altered(
            c,
            machine=machine,
            base_costs=replace(c.base_costs, **none),
            huge_costs=huge,
            surroundings=replace(c.given.surroundings, glibc=None),
            simulated=replace(c.simulated, geometry=geometry, processes=processes, run=None),
            runs=c.given.runs[:1],
            codes=(0,),
        )
    )


@pytest.mark.parametrize("shown", [estimated(), estimated(0), bare(), overlapped(estimated())])
def test_text_fits_80_columns_without_colour(shown: Estimate) -> None:
    text = text_of(shown)
    assert "\x1b" not in text
    long = [line for line in text.splitlines() if len(line) > 80]
    # A command to copy stays one line.
    assert [line for line in long if not line.startswith("  ")] == []
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_text_has_all_parts() -> None:
    text = text_of(estimated())
    for part in (
        "A made-up CPU, bare metal", "measured", "median of 3",
        "page walks", "10 M", "waited for", "bound", "expected gain", "page faults",
        "Worth trying: 2 MiB pages should save",
        "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ./app 'an argument'",
    ):  # fmt: skip
        assert part in text


def test_both_models_are_told() -> None:
    shown = overlapped(estimated(), Interval(0.2, 0.19, 0.21))
    text = " ".join(text_of(shown).split())
    assert "simulation, overlap model" in text
    assert "in 200 windows with 2.0 % of the references" in text
    simple = estimated().gain.expected_fraction
    assert f"(--model simple) give {units.percent(simple.value)}, {units.range_of(simple)}." in text
    report = json.loads(to_json(shown))
    told = report["simulation"]
    assert told["model"] == "overlap"
    # 0.9 of the run time is user time.
    assert told["expected_overlap_fraction"]["value"] == pytest.approx(0.18)
    assert told["expected_simple_fraction"]["value"] == pytest.approx(simple.value)
    assert report["expected_fraction"] == told["expected_overlap_fraction"]
    assert told["modelled"]["user_saved_fraction"]["low"] == 0.19
    assert "at the least" in report["verdict"]["sentence"]


def test_the_simple_model_says_nothing_of_windows() -> None:
    told = json.loads(to_json(estimated()))["simulation"]
    assert (told["model"], told["modelled"], told["no_overlap"]) == ("simple", None, None)
    assert told["expected_overlap_fraction"] is None
    assert "windows" not in text_of(estimated())


def test_absent_figures_are_shown_as_absent() -> None:
    text = text_of(bare())
    assert re.search(r"page walk, waited for +35 \(31.5 to 38.5\) +NA$", text, re.MULTILINE)
    assert re.search(r"page faults +NA +NA +NA +NA", text)
    assert re.search(r"app +7 +NA +NA +NA +NA", text)
    assert "T16:" in text


@pytest.mark.parametrize("shown", [estimated(), estimated(0), bare(), overlapped(estimated())])
def test_json_follows_its_schema(shown: Estimate) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(to_json(shown)), schema)


def test_schema_refuses_what_is_not_a_report() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    report = json.loads(to_json(estimated()))
    report["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema)


def test_every_json_key_carries_its_unit() -> None:
    def check(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                holds_figure = isinstance(inner, (int, float)) and not isinstance(inner, bool)
                assert not holds_figure or key in PLAIN or key.endswith(UNITS), key
                check(inner)
        elif isinstance(value, list):
            for inner in value:
                check(inner)

    check(json.loads(to_json(estimated())))
    check(json.loads(to_json(overlapped(estimated()))))


def test_json_and_text_say_the_same() -> None:
    c = estimated()
    report = json.loads(to_json(c))
    verdict = report["verdict"]
    assert verdict["sentence"] == verdict_sentence(c.gain, 2 << 20)
    assert verdict["sentence"][:40] in text_of(c)
    assert report["next_steps"] == next_steps(c)


def test_the_record_of_this_machine_is_quoted() -> None:
    tried = TrackRecord(True, "2026-01-01T00:00:00Z", 16, 12, 0.0812, 0.264)
    shown = altered(estimated(), track_record=tried)
    text = " ".join(text_of(shown).split())
    assert "Of 16 programs run on this machine, the expected gain was off by 8.1 points" in text
    assert "26.4 at most; 12 were within the interval" in text
    other = text_of(altered(shown, track_record=replace(tried, here=False)))
    assert "programs run on a machine with this CPU" in " ".join(other.split())
    assert json.loads(to_json(shown))["tried"]["mean_error_fraction"] == 0.0812
    jsonschema.validate(json.loads(to_json(shown)), json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert "run on this machine" not in text_of(estimated())


def test_absent_is_null_in_json() -> None:
    report = json.loads(to_json(bare()))
    assert report["fault_fraction"] is None
    assert report["fault_saved_ns"] is None
    assert report["costs"][1]["walk_serial_ns"] is None
    assert report["simulation"]["geometry"][1]["stlb"] is None
    assert report["simulation"]["processes"][1]["counts"] is None
    assert report["simulation"]["processes"][1]["touched_anonymous_pages"] is None


def test_verdict_names_the_figures() -> None:
    for walks, start in ((10**7, "Worth"), (10**6, "Too close"), (0, "Not worth")):
        c = estimated(walks)
        sentence = verdict_sentence(c.gain, 2 << 20)
        assert sentence.startswith(start)
        end = total_interval(c.gain)
        assert units.percent(end.low if walks == 10**7 else end.high) in sentence


def test_a_gain_below_zero_is_called_nothing() -> None:
    c = estimated(0)
    loss = replace(c.gain, expected_fraction=Interval(-0.01, -0.02, -0.001))
    none = replace(loss, fault_fraction=None, verdict="not_worth_it")
    assert verdict_sentence(none, 2 << 20).endswith("would save nothing.")


def test_ends_that_round_to_nothing_are_said_once() -> None:
    assert units.range_of(Interval(0, 0, 1e-4)) == "about 0"
    assert units.range_of(Interval(0, -1e-4, 1e-4)) == "about 0"
    assert units.range_of(Interval(0, 0, 0)) == "0 %"
    assert units.range_of(Interval(0.1, -1e-4, 0.2)) == "about 0 to 20 %"


def test_a_tiny_gain_is_next_to_nothing() -> None:
    small = replace(estimated(0).gain, fault_fraction=None)
    assert verdict_sentence(small, 2 << 20).endswith("would save next to nothing.")


def test_next_steps_depend_on_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlbcost.system.hints.as_root", lambda command: f"sudo {command}")
    monkeypatch.setattr("tlbcost.system.hints.write_setting", lambda value, path: f"{value}>{path}")
    c = estimated()
    assert next_steps(estimated(0)) == ["# Nothing to configure for this program."]

    never = altered(c, machine=replace(MACHINE, thp_mode="never"))
    assert "madvise>/sys/kernel/mm/transparent_hugepage/enabled" in next_steps(never)

    none = altered(c, machine=replace(MACHINE, thp_mode=None))
    assert "sudo sysctl vm.nr_hugepages=138" in next_steps(none)
    assert any("hugetlb=2 ./app" in step for step in next_steps(none))

    old = altered(c, surroundings=replace(c.given.surroundings, glibc=(2, 31)))
    assert any("glibc 2.31" in step for step in next_steps(old))
    assert not any("GLIBC_TUNABLES" in step for step in next_steps(old))

    set_already = altered(
        c, surroundings=replace(c.given.surroundings, glibc_tunables="a.b=1:glibc.malloc.hugetlb=0")
    )
    assert any("=a.b=1:glibc.malloc.hugetlb=1 ./app" in step for step in next_steps(set_already))


def test_several_processes_are_listed_by_their_walks() -> None:
    processes = tuple(process(n * 1000, pid=1000 + n) for n in range(8))
    text = text_of(rebuilt(simulated(estimated(), processes=processes)))
    listed = re.findall(r"^app +(\d+)", text, re.MULTILINE)
    assert listed == ["1007", "1006", "1005", "1004", "1003"]
    assert "and 3 more" in text


def test_written_files_are_whole_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "report"
    output.check_writable(target)
    output.write(target, "text\n")
    assert target.read_text() == "text\n"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


@pytest.mark.parametrize("name", ["missing/report", "."])
def test_unwritable_files_are_refused_before(tmp_path: Path, name: str) -> None:
    with pytest.raises(TlbcostError, match="cannot write") as error:
        output.check_writable(tmp_path / name, TOOL_FAILED)
    assert error.value.exit_code == 125


def test_a_device_is_written_to_and_not_replaced() -> None:
    device = Path("/dev/full")
    if not device.is_char_device() or not os.access(device, os.W_OK):
        pytest.skip("no /dev/full here")
    with pytest.raises(TlbcostError, match="No space left"):
        output.write(device, "text\n")
    assert device.is_char_device()


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.size(4096), "4 KiB"), (units.size(3 << 29), "1.5 GiB"), (units.size(7), "7 B"),
        (units.time(1_234_000_000), "1.23 s"), (units.time(-3_000_000), "-3 ms"),
        (units.time(0), "0 s"), (units.time(12.34), "12.3 ns"),
        (units.times(197e6, 238.4e6), "197-238 ms"),
        (units.count(59_800_000), "59.8 M"), (units.count(12_345), "12,345"),
        (units.percent(0.1284), "13 %"), (units.percent(0.0123), "1.2 %"),
        (units.percent(0), "0 %"), (units.percent(0.0001), "about 0"),
        (units.percent(-0.0001), "about 0"), (units.speedup(1.253), "1.25x"),
        (units.speedup(None), "no limit"),
    ],
)  # fmt: skip
def test_units(shown: str, expected: str) -> None:
    assert shown == expected
