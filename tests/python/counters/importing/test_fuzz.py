# SPDX-License-Identifier: GPL-2.0-or-later
"""Is every file either read or refused with a message, whatever is in it?

`make fuzz` runs this with many more examples: TLBCOST_FUZZ_EXAMPLES.
"""
# Files are refused or not: an error is allowed, and not expected.
# ruff: noqa: PT017

from __future__ import annotations

import json
import math
import os

from builders.tree import GOLDEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tlbcost.common.errors import FAILED, USAGE, TlbcostError
from tlbcost.counters.count_tool import formula_values
from tlbcost.counters.event_counts import EventCounts, merge_sources
from tlbcost.counters.importing.file import import_text
from tlbcost.counters.importing.printed_counts import meaning
from tlbcost.processors.events import load_pmu

SKYLAKE = load_pmu("skl")
FUZZ = settings(
    max_examples=int(os.environ.get("TLBCOST_FUZZ_EXAMPLES", "40")),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TABLE = """\
# tlbcost counted 1
# pmu: skl
# mode: user
# wall_ns: 5000
role\taccess\tpage_size_bytes\tevent\tcount\trunning_fraction\trun\tstate
cycles\tNA\tNA\tskl::UNHALTED_CORE_CYCLES\t100\t1\t0\tcounted
walks_completed\tload\t2097152\tr0408\t7\t0.5\t1\tmultiplexed
# end: 2
"""
SEEDS = [
    TABLE,
    *(
        path.read_text()
        for path in sorted(GOLDEN.iterdir())
        if path.name.startswith(("perf-", "opreport-"))
    ),
]
# What the formats are made of: characters and words that parsers look for.
PIECES = st.sampled_from(
    [
        ",", ";", ":", "|", "\t", " ", "\n", "\r\n", "/", "-", ".", "%", "(", ")", "#", "<", ">",
        '"', "{", "}", "[", "]", "\\", "'", "\u202f", "\u2019", "\u0660", "0", "9" * 20, "1e999",
        "nan", "inf", "-1", "0.0", "100.00", "<not counted>", "<not supported>", "cycles",
        "dTLB-load-misses", "cpu/event=0x08,umask=0x10/", "r1008", "task-clock", ":u", ":k", "msec",
        "CPU0", "S0", "summary", "seconds time elapsed", " Performance counter stats for 'x':\n",
        "# started on x\n", "# tlbcost counted 1\n", "Counted X events (", ") count 10", "samples",
        "CPU: x\n", "NA", "NaN", "Infinity", '"counter-value" : 5', "#  time  counts unit events\n",
    ]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A sound file with parts cut out, doubled, swapped or replaced."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 1, 2, 5, 30, 200]))
        piece = draw(st.one_of(PIECES, st.text(max_size=8), st.just(text[at : at + length])))
        copied = draw(st.integers(1, 3))
        text = text[:at] + piece * copied + text[at + length :]
    return text


def check(counted: EventCounts) -> None:
    for count in counted.counts:
        if count.value is None:
            assert count.state not in ("counted", "multiplexed")
        else:
            assert math.isfinite(count.value)
            assert count.value >= 0
        assert count.running_fraction is None or 0 <= count.running_fraction <= 1
    for time in (counted.wall_ns, counted.user_ns, counted.system_ns, counted.minor_faults):
        assert time is None or (math.isfinite(time) and time >= 0)
    formula_values(SKYLAKE.formulas, counted)


def read_or_refuse(text: str) -> EventCounts | None:
    try:
        counted = import_text(text, "file", SKYLAKE)
    except TlbcostError as error:
        assert error.exit_code in (FAILED, USAGE)
        assert "file" in str(error)
        return None
    check(counted)
    return counted


@FUZZ
@given(mutated())
def test_damaged_files(text: str) -> None:
    read_or_refuse(text)


@FUZZ
@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=30).map("".join))
def test_files_made_of_pieces(text: str) -> None:
    read_or_refuse(text)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), PIECES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3),
    max_leaves=5,
)


@FUZZ
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["counter-value", "event", "unit", "pcnt-running", "interval", "cpu", "variance"]
            ),
            JSON,
        ),
        min_size=1,
        max_size=4,
    )
)
def test_json_of_any_types(rows: list[dict[str, object]]) -> None:
    read_or_refuse("\n".join(json.dumps(row) for row in rows))


@FUZZ
@given(st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=6).map("".join)))
def test_any_name_of_an_event(name: str) -> None:
    found = meaning(name, SKYLAKE)
    assert found.name is None or found.name.split(".")[0].islower()


@FUZZ
@given(st.lists(mutated(), min_size=2, max_size=3))
def test_files_put_together(texts: list[str]) -> None:
    parts = [counted for text in texts if (counted := read_or_refuse(text)) is not None]
    if parts:
        try:
            check(merge_sources(parts))
        except TlbcostError as error:
            assert error.exit_code == FAILED
