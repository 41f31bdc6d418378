# SPDX-License-Identifier: GPL-2.0-or-later
"""Is what is advised fit for the system, with its cost, and followed by the JSON's schema?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders.answer import altered, estimated
from builders.memory import SETTINGS, backed
from builders.report import json_of, text_of
from builders.tree import valid
from tlbcost.allocators.recognise import Malloc, Program, program_of
from tlbcost.answer.record import Estimate, Surroundings
from tlbcost.attribution.document import Attribution, RegionShare, on_huge_bytes
from tlbcost.common.units import Interval
from tlbcost.memory.eligibility import Backing, MemoryKind
from tlbcost.remedies import advice, switches
from tlbcost.remedies.advice import Advice, advise
from tlbcost.remedies.remedy import Situation, growth_bytes
from tlbcost.run.outcome import Run
from tlbcost.system import hints, huge_pages
from tlbcost.system.huge_pages import HugeSettings

MIB = 1 << 20
GLIBC = Malloc("glibc", "libc.so.6", "GLIBC_TUNABLES")
RUN = Run(10**9, 9 * 10**8, 10**8, 1000, 0, 128 * MIB)


@pytest.fixture(autouse=True)
def system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, with memory to spare and settings that can be written; a dynamic program with glibc."""
    monkeypatch.setattr(hints, "is_root", lambda: True)
    monkeypatch.setattr(hints, "write_setting", lambda value, path: f"echo {value} > {path}")
    monkeypatch.setattr(huge_pages, "spare_bytes", lambda: 8 << 30)
    monkeypatch.setattr(huge_pages, "sizes", lambda: [2 * MIB])
    monkeypatch.setattr(advice, "program_of", lambda path, _: Program(path, GLIBC))


def region(kind: MemoryKind = "heap", name: str = "[heap]", **changes: object) -> RegionShare:
    made = RegionShare(
        "/opt/app", kind, name, 96 * MIB, 90 * MIB, 96 * MIB, False,
        0.9, 0.1, 0.9, 0.1, Interval(0.2, 0.1, 0.3),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def situation(settings: HugeSettings = SETTINGS, **changes: object) -> Situation:
    made = Situation(("./app", "/dev/shm/x"), settings, (2, 36), True, (RUN,), environment={})
    return replace(made, **changes)  # type: ignore[arg-type]


def codes(found: tuple[Advice, ...]) -> list[str]:
    [one] = found
    return [remedy.code for remedy in one.remedies]


def test_memory_that_does_not_pay_or_is_there_already_is_left_alone() -> None:
    idle = region(gain_fraction=Interval(0.001, 0.0, 0.002))
    covered = region(backed=backed(huge_bytes=64 * MIB))
    pooled = region(backed=Backing(0, 96 * MIB, "rw-p", 96 * MIB, 0, 2 * MIB, False, ("ht",)))
    assert advise([idle, covered, pooled, region("stack", "[stack]")], situation()) == ()
    # What may pay is advised, by the upper end.
    assert advise([region(gain_fraction=Interval(0.005, 0.0, 0.02))], situation()) != ()
    # Without a gain the walks decide.
    assert advise([region(gain_fraction=None, time_fraction=None, misses_fraction=0.01)],
                  situation()) == ()  # fmt: skip
    assert codes(advise([region(gain_fraction=None)], situation()))[0] == "glibc-thp"


@pytest.mark.parametrize(
    ("settings", "changes", "first", "never"),
    [({}, {}, "glibc-thp", "hugectl-heap"), ({"thp": "always"}, {}, "glibc-top-pad", "glibc-thp"),
     ({"thp": "never"}, {}, "glibc-thp", "madvise"), ({"thp": None}, {}, "glibc-pool", "glibc-thp"),
     ({}, {"glibc": (2, 31)}, "hugectl-heap", "glibc-thp"),
     ({}, {"glibc": (2, 31), "hugectl": False}, "madvise", "hugectl-heap"),
     ({}, {"glibc": (2, 34)}, "madvise", "hugectl-heap"),
     ({}, {"glibc": None}, "madvise", "glibc-thp"),
     ({"kernel": (5, 15)}, {}, "glibc-thp", "collapse")],
)  # fmt: skip
def test_a_heap_by_system(
    settings: dict[str, object], changes: dict[str, object], first: str, never: str
) -> None:
    found = codes(advise([region()], situation(replace(SETTINGS, **settings), **changes)))  # type: ignore[arg-type]
    assert found[0] == first
    assert never not in found


def test_page_faults_saved_belong_to_resident_memory_where_touches_are_not_known() -> None:
    """Copies of a running program see all that its small code touches, and not all of its heap."""
    none = Interval(0, 0, 0)
    heap = region(touched_bytes=None, gain_fraction=none, backed=backed(resident_bytes=90 * MIB))
    code = region("segment", "/opt/app", touched_bytes=4096, gain_fraction=none, code=True)
    found = advise([code, heap], situation(fault_fraction=0.2))
    assert [each.regions for each in found] == [(heap,)]


def test_another_malloc_is_not_asked_by_glibcs_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tcmalloc", "musl", "other"):
        monkeypatch.setattr(advice, "program_of", lambda path, _, n=name: Program(path, Malloc(n)))
        assert codes(advise([region("anonymous", "x")], situation()))[0] == "thp-always"


def test_arenas_of_threads_are_reached_by_a_pool_alone() -> None:
    found = codes(advise([region("anonymous", "malloc's arenas for threads")], situation()))
    assert "glibc-thp" not in found
    assert "glibc-pool" in found


def test_pools_are_advised_as_far_as_memory_can_be_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "spare_bytes", lambda: 64 * MIB)
    found = codes(advise([region("tmpfs", "/dev/shm/x", backed=backed())], situation()))
    assert found == ["tmpfs-huge", "tmpfs-remount"]


def test_the_file_of_a_command_is_moved_in_the_command() -> None:
    [one] = advise([region("tmpfs", "/dev/shm/x")], situation())
    for remedy in one.remedies:
        if remedy.code in ("tmpfs-huge", "hugetlbfs"):
            assert remedy.steps[-1].startswith("./app /mnt/tlbcost-")
            assert remedy.undo
    [one] = advise([region("tmpfs", "/dev/shm/other")], situation())
    assert any("let the program keep /dev/shm/other" in step for step in one.remedies[0].steps)


def test_tunables_that_are_set_stay() -> None:
    [one] = advise([region()], situation(environment={"GLIBC_TUNABLES": "a.b=1"}))
    assert one.remedies[0].steps == (
        "GLIBC_TUNABLES=a.b=1:glibc.malloc.hugetlb=1 ./app /dev/shm/x",
    )


def test_costs() -> None:
    faults = (Interval(1e3, 1e3, 1e3), Interval(7e4, 6e4, 8e4))
    [one] = advise([region()], situation(faults=faults))
    known = {remedy.code: remedy.cost for remedy in one.remedies}
    assert known["glibc-thp"].growth_bytes == 6 * MIB
    assert known["glibc-thp"].fault_ns == faults[1]
    assert known["glibc-thp"].pool_pages is None
    assert known["glibc-pool"].pool_pages == 80  # 128 MiB and 16 spare ones
    assert any("defrag madvise" in text for text in known["glibc-thp"].sentences)
    assert growth_bytes([region(touched_huge_bytes=0)]) == 0


def test_what_is_smaller_than_a_huge_page_does_not_grow() -> None:
    assert on_huge_bytes(4096, 2, 8192, 2 * MIB) == 4096
    assert on_huge_bytes(4096, 2, 3 * MIB, 2 * MIB) == 3 * MIB
    assert on_huge_bytes(4096, 2, 64 * MIB, 2 * MIB) == 4 * MIB


def test_memory_that_would_grow_much_has_a_smaller_page_to_try() -> None:
    sparse = region("anonymous", "x", touched_bytes=4 * MIB)
    assert "mthp-64k" in codes(advise([sparse], situation()))
    assert "mthp-64k" not in codes(advise([region("anonymous", "x")], situation()))


@pytest.mark.parametrize("name", ["java", "python3.11", "postgres", "redis-server", "mongod"])
def test_documented_switches_name_their_source(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    program = program_of(str(path))
    assert program.runtime is not None
    regions = [region("anonymous", "x"), region("shared", "y")]
    advised = switches.remedies_for(regions, None, program, situation())
    cautions = switches.cautions_for(regions, program)
    assert advised or cautions
    assert all((each.source or "").startswith("https://") for each in advised)
    assert all(source.startswith("https://") for _, source in cautions)


def test_numpy_is_switched_on_where_it_was_off() -> None:
    program = Program("/usr/bin/python3", GLIBC, "python")
    argv = ("env", "NUMPY_MADVISE_HUGEPAGE=0", "python3", "a.py")
    advised = switches.remedies_for(
        [region("anonymous", "x")], "glibc", program, situation(argv=argv)
    )
    assert advised[0].steps == ("NUMPY_MADVISE_HUGEPAGE=1 python3 a.py",)
    advised = switches.remedies_for([region("anonymous", "x")], "glibc", program, situation())
    assert all("NUMPY" not in step for each in advised for step in each.steps)


def reported(*regions: RegionShare) -> Estimate:
    made = estimated(40_000_000)
    assert made.simulated is not None
    simulated = replace(made.simulated, attribution=Attribution(regions, (), (), "prices", 0.0))
    around = Surroundings(False, (2, 36), None, SETTINGS, hugectl=True)
    return altered(made, surroundings=around, simulated=simulated)


def test_the_report_follows_its_schema_and_has_no_advice_where_nothing_is_to_gain() -> None:
    made = reported(region(), region("tmpfs", "/dev/shm/x", backed=backed()))
    document = valid(json_of(made), "estimate")
    assert [each["regions"][0]["name"] for each in document["what_to_do"]] == [
        "[heap]", "/dev/shm/x",
    ]  # fmt: skip
    assert document["what_to_do"][1]["reason"] == "tmpfs_never"
    assert altered(made, gain=estimated(0).gain).advice == ()
    assert altered(made, surroundings=None).advice == ()


SAMPLED: dict[str, object] = {
    "touched_bytes": None, "touched_huge_bytes": None, "huge_misses_fraction": None,
    "time_fraction": None, "huge_time_fraction": None, "samples": 900,
    "misses_interval": Interval(0.9, 0.88, 0.92),
}  # fmt: skip


def test_memory_that_was_sampled_has_remedies_and_no_growth() -> None:
    [one] = advise([region("anonymous", "x", **SAMPLED)], situation())
    by_code = {remedy.code: remedy for remedy in one.remedies}
    assert {"glibc-thp", "glibc-pool", "map-hugetlb"} <= set(by_code)
    assert "mthp-64k" not in by_code
    assert {remedy.cost.growth_bytes for remedy in one.remedies} == {None}
    # Of the mapping's size, since it is not known what of it is touched.
    assert by_code["map-hugetlb"].cost.pool_pages == 48


def test_memory_that_was_sampled_but_not_seen_has_none() -> None:
    assert advise([region("anonymous", "x", **SAMPLED, size_bytes=None)], situation()) == ()


def test_what_samples_say_is_said_to_be_theirs() -> None:
    sampled_region = region(**SAMPLED, backed=backed())
    attribution = Attribution((sampled_region,), (), (), None, 0.0, source="samples of x")
    around = Surroundings(True, (2, 36), None, SETTINGS, hugectl=True)
    made = altered(estimated(), simulated=None, sampled=attribution, surroundings=around)
    document = valid(json_of(made), "estimate")
    assert document["attribution"]["source"] == "samples of x"
    assert document["what_to_do"][0]["remedies"]
    text = " ".join(text_of(made).split())
    assert "90 % of the misses sampled; 20 % gain by its share of them" in text
