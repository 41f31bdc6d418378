# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the report on placement say what was found, and NA for what was not?"""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from builders.answer import MACHINE, RUN, content
from tlbcost.answer.json import document
from tlbcost.answer.text import print_report
from tlbcost.answer.words import placement_sentence
from tlbcost.commands.numa import caches, nodes
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.numa.accesses import HotPages
from tlbcost.numa.carrefour import Decision, IntervalFigures
from tlbcost.numa.json import to_json
from tlbcost.numa.locality import Placed, Score
from tlbcost.numa.nodes import Nodes
from tlbcost.numa.placement_table import ImagePlacement, PlacementPlan
from tlbcost.numa.report import print_study
from tlbcost.numa.sampler import NodeMemory
from tlbcost.numa.study import SizeFigures, Study, conclude
from tlbcost.run.launch import Outcome
from tlbcost.simulator.run import Simulation

SCHEMAS = Path(__file__).parents[3] / "data" / "schema"
BASE, HUGE = 4096, 2097152
BEFORE, AFTER = Score(0.88, 0.001), Score(0.64, 0.59)

STUDY = Study(
    version="0.1.0",
    date="2026-01-02T03:04:05Z",
    machine=MACHINE,
    argv=("./app", "two words"),
    run=RUN,
    simulated_ns=40_000_000_000,
    plan=PlacementPlan(1 << 20, 2 << 20, "of this machine"),
    nodes=Nodes(4, "assumed"),
    spread="round-robin",
    threads=4,
    interval_references=4194304,
    base=SizeFigures(BASE, BEFORE, Score(0.25, 0.0), HotPages(0, 0.0, 0.001), 9_000_000, 70_000,
                     14e6, 0.004),
    huge=SizeFigures(HUGE, AFTER, Score(0.25, 0.65), HotPages(1, 0.32, 0.32), 1000, 140, 7e6,
                     0.002),
    false_sharing=0.3,
    walk_l2_fraction=0.002,
    dram_accesses=12.4e6,
    maptu=5.8,
    figures=(IntervalFigures(AFTER, 0.64, 0.65, 1),) * 2,
    decision=Decision("hot", False, 0, True, True, False, False),
    remedies={
        "interleave": Score(0.25, 0.65), "migrate": AFTER, "split": BEFORE, "split_hot": BEFORE,
        "replicate": Score(1.0, 0.0), "touched_by_users": AFTER,
    },
    after=BEFORE,
    translation="same",
    placement="slower",
    costs_source="cached",
    real=None,
    why_not_real="this machine has one node",
)  # fmt: skip
UNPRICED = replace(
    STUDY,
    base=replace(STUDY.base, fault_time_ns=None, largest_thread_fault_fraction=None),
    huge=replace(STUDY.huge, fault_time_ns=None, largest_thread_fault_fraction=None, hot=None),
    decision=Decision("none", None, 1, False, False, None, None),
    figures=(),
    walk_l2_fraction=None,
    maptu=None,
    plan=PlacementPlan(1 << 20, 0, "of this machine, which has no L3", 4000, 250, 750),
)
REAL = replace(
    STUDY,
    nodes=Nodes(2, "machine"),
    real=NodeMemory({0: 3 << 30, 1: 1 << 30}, {0: 3 << 30}, ("default",), {0: 30, 1: 10}),
    why_not_real=None,
)
KINDS = (
    replace(STUDY, decision=Decision("shared", True, 0, False, True, True, False)),
    replace(STUDY, decision=Decision("none", False, 0, True, True, True, False)),
    replace(STUDY, decision=Decision("none", False, 0, False, True, False, True)),
    replace(STUDY, decision=Decision("none", False, 0, False, False, False, False)),
)


def text_of(study: Study) -> str:
    file = io.StringIO()
    print_study(study, file)
    return file.getvalue()


@pytest.mark.parametrize("study", [STUDY, UNPRICED, REAL, *KINDS])
def test_reports_fit_and_follow_the_schema(study: Study) -> None:
    schema = json.loads((SCHEMAS / "numa.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(to_json(study)), schema)
    assert all(len(line) <= 80 for line in text_of(study).splitlines())


def test_the_report_names_what_was_assumed() -> None:
    text = text_of(STUDY)
    assert "4 (assumed: this machine has one)" in text
    assert "Where the memory really lay: NA: this machine has one node." in text
    assert "the winner is the simulator's" in " ".join(text.split())
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
    list(
        zip(
            KINDS,
            (
                "split all shared huge pages",
                "keep the huge pages, and interleave them",
                "keep the huge pages, and move them",
                "leave the huge pages as they are",
            ),
            strict=True,
        )
    ),
)
def test_each_decision_has_its_sentence(study: Study, words: str) -> None:
    assert words in " ".join(text_of(study).split())


def test_components_that_disagree_are_told() -> None:
    assert "the components disagree" in text_of(KINDS[0])
    assert "the components disagree" not in text_of(KINDS[1])


@pytest.mark.parametrize("text", ["1", "65", "four", "-2", "2.5", ""])
def test_nodes_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="from 2 to 64"):
        nodes(text)
    assert nodes("4") == 4


def test_what_stays_in_the_caches_cannot_be_placed() -> None:
    nothing = np.zeros((0, 8), dtype=np.int64)
    image = ImagePlacement(
        7, "/bin/x", BASE, HUGE, 1, 1, 100, 50, 1, 0, 0, *[nothing[:, 0]] * 3, nothing,
        *[np.array([1])] * 2, np.array([0]),
    )  # fmt: skip
    outcome = Outcome(RUN, "", None, 0, None, None)
    with pytest.raises(TlbcostError, match=r"nothing to place: .* 1 MiB and 2 MiB") as raised:
        conclude(
            MACHINE, ["x"], RUN, Simulation((), outcome), (image,), STUDY.plan, STUDY.nodes,
            "blocks", None, "made up", None,
        )  # fmt: skip
    assert raised.value.exit_code == CANNOT_MEASURE


def test_sizes_of_caches() -> None:
    assert caches("512K,1M") == (512 << 10, 1 << 20)
    assert caches("65536") == (65536, 0)
    assert caches("1M,0") == (1 << 20, 0)
    for text in ("", ",", "1M,", "0", "1M,2M,3M", "K", "-1", "9999G"):
        with pytest.raises(argparse.ArgumentTypeError, match="not sizes of caches"):
            caches(text)


def test_an_estimate_says_both_effects() -> None:
    placed = Placed(4, "of this machine", Score(0.25, 0.08), Score(0.26, 0.52))
    shown = content()
    gain = replace(
        shown.estimate, expected_fraction=Interval(0.15, 0.10, 0.2), verdict="worth_trying"
    )
    both = replace(shown, estimate=gain, placed=placed)
    sentence = placement_sentence(both)
    assert sentence is not None
    assert sentence.startswith(
        "But on 4 NUMA nodes (of this machine): faster by translation, slower by placement "
        "(local accesses 25 % to 26 %, imbalance 8.0 % to 52 %)."
    )
    assert placement_sentence(shown) is None
    file = io.StringIO()
    print_report(both, file)
    assert "faster by translation, slower by placement" in " ".join(file.getvalue().split())
    schema = json.loads((SCHEMAS / "estimate.schema.json").read_text(encoding="utf-8"))
    for made in (both, shown):
        jsonschema.validate(json.loads(json.dumps(document(made))), schema)
    assert document(both)["placement"]["direction"] == "slower"  # type: ignore[index]
