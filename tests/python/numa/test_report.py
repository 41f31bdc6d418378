# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the report on placement say what was found, and NA for what was not?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import report
from builders.answer import MACHINE, RUN, altered, estimated
from builders.counted import OUTCOME
from builders.tree import fails, printed, there, valid
from tlbcost.answer.document import estimate_document
from tlbcost.answer.words import placement_sentence
from tlbcost.common.document import to_json
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.common.units import Interval
from tlbcost.numa.carrefour import Decision, IntervalFigures, Split
from tlbcost.numa.locality import NodePlacement, Score
from tlbcost.numa.node_memory import NodeMemory
from tlbcost.numa.placement import HotPages, Nodes
from tlbcost.numa.placement_table import ImagePlacement, PlacementPlan, PlacementSample
from tlbcost.numa.report import print_study, worded
from tlbcost.numa.study import Directions, SizeFigures, Study, conclude
from tlbcost.simulator.run import Simulation

BASE, HUGE = 4096, 2097152
BEFORE, AFTER = Score(0.88, 0.001), Score(0.64, 0.59)
PLAN = {"l2_bytes": 1 << 20, "l3_share_bytes": 2 << 20, "caches_source": "of this machine"}


def decision(
    split: Split,
    lar_split: bool | None,
    vetoed: int,
    *rest: Any,  # noqa: ANN401
) -> Decision:
    interleave, migrate, promote, allocate = rest
    return Decision(
        split=split, lar_split=lar_split, vetoed=vetoed, interleave=interleave, migrate=migrate,
        promote=promote, allocate=allocate, after=BEFORE,
    )  # fmt: skip


STUDY = Study(
    tlbcost_version="0.1.0",
    date="2026-01-02T03:04:05Z",
    machine=MACHINE,
    argv=("./app", "two words"),
    run=RUN,
    simulated_ns=40_000_000_000,
    nodes=Nodes(4, "assumed"),
    threads=4,
    spread="round-robin",
    sample=PlacementSample(**PLAN, interval_references=4194304),  # type: ignore[arg-type]
    dram_accesses=12.4e6,
    dram_accesses_per_us_and_node=5.8,
    walk_l2_miss_fraction=0.002,
    false_sharing_fraction=0.3,
    page_sizes=(
        SizeFigures(
            page_size_bytes=BASE, first_touch=BEFORE, interleaved=Score(0.25, 0.0),
            hot_pages=HotPages(0, 0.0, 0.001), data_walks=9_000_000, page_faults=70_000,
            fault_time_ns=14e6, largest_thread_fault_fraction=0.004,
        ),
        SizeFigures(
            page_size_bytes=HUGE, first_touch=AFTER, interleaved=Score(0.25, 0.65),
            hot_pages=HotPages(1, 0.32, 0.32), data_walks=1000, page_faults=140,
            fault_time_ns=7e6, largest_thread_fault_fraction=0.002,
        ),
    ),
    costs_source="cached",
    intervals=(IntervalFigures(AFTER, 0.64, 0.65, 1),) * 2,
    remedies={
        "interleave": Score(0.25, 0.65), "migrate": AFTER, "split": BEFORE, "split_hot": BEFORE,
        "replicate": Score(1.0, 0.0), "touched_by_users": AFTER,
    },
    directions=Directions(translation="same", placement="slower"),
    carrefour_lp=decision("hot", False, 0, True, True, False, False),
    real=None,
    why_not_real="this machine has one node",
)  # fmt: skip
UNPRICED = replace(
    STUDY,
    page_sizes=(
        replace(STUDY.base, fault_time_ns=None, largest_thread_fault_fraction=None),
        replace(
            STUDY.huge, fault_time_ns=None, largest_thread_fault_fraction=None, hot_pages=None
        ),
    ),
    carrefour_lp=decision("none", None, 1, False, False, None, None),
    intervals=(),
    walk_l2_miss_fraction=None,
    dram_accesses_per_us_and_node=None,
    sample=PlacementSample(
        period_references=4000, warm_references=250, measured_references=750, l2_bytes=1 << 20,
        l3_share_bytes=0, caches_source="of this machine, which has no L3",
        interval_references=4194304,
    ),
)  # fmt: skip
REAL = replace(
    STUDY,
    nodes=Nodes(2, "machine"),
    real=NodeMemory({0: 3 << 30, 1: 1 << 30}, {0: 3 << 30}, ("default",), {0: 30, 1: 10}),
    why_not_real=None,
)
KINDS = (
    replace(STUDY, carrefour_lp=decision("shared", True, 0, False, True, True, False)),
    replace(STUDY, carrefour_lp=decision("none", False, 0, True, True, True, False)),
    replace(STUDY, carrefour_lp=decision("none", False, 0, False, True, False, True)),
    replace(STUDY, carrefour_lp=decision("none", False, 0, False, False, False, False)),
)


def text_of(study: Study) -> str:
    return printed(print_study, worded(study), details=True)


@pytest.mark.parametrize("study", [STUDY, UNPRICED, REAL, *KINDS])
def test_a_summary_fits_a_screen_and_begins_with_the_verdict(study: Study) -> None:
    lines = printed(print_study, worded(study), details=False).splitlines()
    assert len(lines) <= 24
    assert lines[0].startswith("2 MiB pages by first touch on ")
    assert any(line.startswith("Carrefour-LP would ") for line in lines[:4])


@pytest.mark.parametrize("study", [STUDY, UNPRICED, REAL, *KINDS])
def test_reports_fit_and_follow_the_schema(study: Study) -> None:
    valid(to_json(worded(study)), "numa")
    assert all(len(line) <= 80 for line in text_of(study).splitlines())


def test_the_report_names_what_was_assumed() -> None:
    text = text_of(STUDY)
    assert "4 (assumed: this machine has one)" in text
    assert "Where the memory really lay: NA: this machine has one node." in text
    assert "the simulator decides which one wins" in " ".join(text.split())
    joined = " ".join(text.split())
    assert "about the same by translation, slower by placement" in joined
    assert "Carrefour-LP would split the hot huge pages" in joined
    assert "not applied, since the rate is this machine's" in joined


def test_what_was_not_obtained_is_na() -> None:
    text = " ".join(text_of(UNPRICED).split())
    assert "page-fault time NA NA" in text
    assert "page walks cause NA of the L2 misses on base pages, cannot tell" in text
    assert "NA DRAM accesses per µs" in text
    assert "fewer than two intervals" in text
    assert "750 of each 4,000 references" in text
    assert "0 %" not in text.split("page-fault time")[1].split("false sharing:")[0]


def test_real_memory_is_shown_by_node() -> None:
    text = text_of(REAL)
    assert [line.split() for line in text.splitlines() if line.startswith("node ")] == [
        ["node", "0", "3", "GiB", "75", "%", "75", "%"],
        ["node", "1", "1", "GiB", "25", "%", "25", "%"],
    ]
    assert "Policy: default" in text


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (KINDS[0], "split all shared huge pages"),
        (KINDS[1], "keep the huge pages, and interleave them"),
        (KINDS[2], "keep the huge pages, and move them"),
        (KINDS[3], "leave the huge pages as they are"),
    ],
)
def test_each_decision_has_its_sentence(study: Study, words: str) -> None:
    assert words in " ".join(text_of(study).split())


def test_components_that_disagree_are_reported() -> None:
    assert "the components disagree" in text_of(KINDS[0])
    assert "the components disagree" not in text_of(KINDS[1])


def test_an_estimate_says_both_effects() -> None:
    placed = NodePlacement(4, "of this machine", Score(0.25, 0.08), Score(0.26, 0.52))
    shown = estimated()
    gain = replace(shown.gain, expected_fraction=Interval(0.15, 0.10, 0.2), verdict="worth_trying")
    both = altered(shown, gain=gain, placed=placed)
    sentence = there(placement_sentence(both))
    assert sentence.startswith(
        "But on 4 NUMA nodes (of this machine): faster by translation, slower by placement "
        "(local accesses 25 % to 26 %, imbalance 8.0 % to 52 %)."
    )
    assert placement_sentence(shown) is None
    text = report.text_of(both, details=False)
    assert "faster by translation, slower by placement" in " ".join(text.split())
    assert there(estimate_document(both).placement).direction == "slower"


def test_what_stays_in_the_caches_cannot_be_placed() -> None:
    nothing = np.zeros((0, 8), dtype=np.int64)
    image = ImagePlacement(
        BASE, HUGE, 1, 1, 50, 1, 0, 0, *[nothing[:, 0]] * 3, nothing,
        *[np.array([1])] * 2, np.array([0]),
    )  # fmt: skip
    plan = PlacementPlan(l2_bytes=1 << 20, l3_share_bytes=2 << 20, caches_source="made up")
    with fails(r"nothing to place: .* 1 MiB and 2 MiB", CANNOT_MEASURE):
        conclude(
            MACHINE, ["x"], RUN, Simulation((), OUTCOME), (image,), plan, Nodes(4, "assumed"),
            "blocks", None, "made up", None,
        )  # fmt: skip
