# SPDX-License-Identifier: GPL-2.0-or-later
"""What is shown of other machines?"""

from __future__ import annotations

import io
import json
from dataclasses import replace

import jsonschema
import pytest
from builders.machines import BASE, HUGE, MTHP, machine, report
from builders.tree import SCHEMAS
from tlbcost.machines.document import to_json
from tlbcost.machines.gain import MachineEstimates
from tlbcost.machines.plan import GIB
from tlbcost.machines.report import best_first, plain_sentence, print_report, verdict


def text_of(made: MachineEstimates, *, details: bool = True) -> str:
    file = io.StringIO()
    print_report(made, file, details=details)
    return file.getvalue()


def test_the_summary_fits() -> None:
    names = ("skx", "icx", "zen4", "zen3", "skl")
    machines = [machine(name, BASE, MTHP, HUGE, GIB) for name in names]
    for made in (
        report([machine("skx", BASE, HUGE, GIB), machine("arm_v3")], (2500, 1, 1)),
        report([machine("skx")], ()),
        report(machines, tuple(range(500, 800, 15))),
    ):
        lines = text_of(made, details=False).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
        assert lines[-1].endswith("--details")
    assert [
        line.split()[1] for line in lines if " to " in line and line.startswith(("AMD", "Intel"))
    ]
    crowd = [machine(name, BASE, MTHP, HUGE, GIB) for name in names]
    many = report([replace(crowd[0], name=f"skx{i}") for i in range(20)], tuple(range(500, 600)))
    assert "more lines: --details" in text_of(many, details=False)


@pytest.mark.parametrize(
    ("cycles", "words"),
    [
        ((2500,), "SLOWER: larger pages should take more time."),
        ((990,), "NOT PROVEN: no larger page size is clearly faster."),
        ((300,), "FASTER: 1 GiB pages should save time: 0.30 of the time on 4 KiB pages ("),
    ],
)
def test_the_verdict(cycles: tuple[int, ...], words: str) -> None:
    [made] = report([machine("skx", BASE, HUGE, GIB)], cycles).machines
    sizes = (made.sizes[0], made.sizes[2])
    assert verdict([replace(made, sizes=sizes)]).startswith(words)


def test_the_report_says_what_is_assumed() -> None:
    made = report([machine("skx", BASE, HUGE, GIB), machine("arm_v3")], (2500, 1, 1))
    assert [caveat.code for caveat in made.caveats] == ["M01", "M02"]
    text = text_of(made)
    assert "1 GiB pages would make this slower" in text
    assert "No times: not published" in text
    document = json.loads(to_json(made))
    schema = json.loads((SCHEMAS / "machine-estimate.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    assert document["machines"][1]["page_sizes"][1]["time_ratio"] is None


def test_a_size_that_is_not_known_is_na() -> None:
    made = report([machine("nhm", BASE, HUGE, GIB)], (1, 1))
    assert [caveat.code for caveat in made.caveats] == ["M01"]
    text = text_of(made)
    row = next(line for line in text.splitlines() if line.startswith("1 GiB "))
    assert row.split() == ["1", "GiB", *["NA"] * 6]
    assert "1 GiB pages: not available (NA)." in text
    assert "the TLBs of Intel Nehalem for 1 GiB pages are not on file." in text
    document = json.loads(to_json(made))
    schema = json.loads((SCHEMAS / "machine-estimate.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    last = document["machines"][0]["page_sizes"][2]
    assert (last["tlb"], last["misses"], last["time_ratio"]) == (None, None, None)


def test_several_machines_are_one_table_best_first_and_a_sentence() -> None:
    made = report([machine("skx"), machine("zen4"), machine("arm_v3")], (1000, 300, 9, 9))
    text = text_of(made, details=False)
    assert text.index("AMD Zen 4  ") < text.index("Intel Skylake-X or Cascade Lake-X  ")
    sentence = plain_sentence(made.machines)
    assert sentence is not None
    assert sentence.startswith("On AMD Zen 4 2 MiB pages save 70 % (")
    assert "on Intel Skylake-X or Cascade Lake-X 2 MiB pages save 20 % (" in sentence
    assert plain_sentence(made.machines[:1]) is None
    assert [size is None for _, size in best_first(made.machines)] == [False, False, True]
