# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the report fit, say what matters first, and add up?"""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest
from builders.answer import MACHINE, RUN, altered, estimated, interval, overlapped, rebuilt, stalls
from builders.report import advised, made_up, summary_of, text_of
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.answer.document import estimate_document
from tlbcost.answer.record import Estimate
from tlbcost.common.units import Interval, middle, sum_of_times
from tlbcost.model import gain as model
from tlbcost.report.facts import memory_words, stall_words
from tlbcost.report.lines import visible, wrapped

VERDICTS = ("WORTH TRYING: ", "NOT WORTH IT: ", "NOT PROVEN: ", "ALREADY THERE: ")


@pytest.mark.parametrize("name", made_up())
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_24_lines_at_most_and_none_wider(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = made_up()[name]
    lines = summary_of(shown)
    assert lines[0].startswith(VERDICTS)
    assert max(map(len, lines)) <= columns
    assert not any(line != line.rstrip() for line in lines)
    if columns >= 80:
        assert len(lines) <= (15 if shown.gain.verdict == "not_worth_it" else 24)
    assert lines[-1].endswith("--details")


@pytest.mark.parametrize("name", made_up())
def test_the_first_15_lines_have_the_answer(name: str) -> None:
    shown = made_up()[name]
    lines = summary_of(shown)[:15]
    text = "\n".join(lines)
    assert "Upper bound for all address translation" in text
    if shown.gain.fault_fraction is not None and "cheaper TLB misses" in text:
        assert ("total" in text) == ("page faults " in text)
    if shown.advice:
        assert any(line.startswith("Cause ") for line in lines)
        assert any(line.startswith("Try ") for line in lines)
    elif shown.gain.verdict in ("worth_trying", "not_proven"):
        assert any(line.startswith("Prove ") for line in lines)


def test_the_details_follow_the_summary() -> None:
    for shown in made_up().values():
        lines = text_of(shown).splitlines()
        assert lines[: len(summary_of(shown))] == summary_of(shown)
        assert len(lines) > len(summary_of(shown))


def _figures(line: str) -> list[float]:
    return [
        0.0 if each == "about 0" else float(each.replace(",", "").removesuffix(" %"))
        for each in re.findall(r"-?[\d,.]+ %|about 0", line)
    ]


def _with_gains(fault: Interval | None, expected: Interval) -> Estimate:
    made = estimated()
    verdict = model.verdict(expected, fault, False)
    return altered(
        made,
        gain=replace(made.gain, fault_fraction=fault, expected_fraction=expected, verdict=verdict),
    )


shares = st.tuples(*[st.floats(-0.2, 0.45)] * 3).map(
    lambda ends: Interval(sorted(ends)[1], min(ends), max(ends))
)


@given(shares, shares)
def test_the_rows_add_up_to_the_total_as_written(fault: Interval, expected: Interval) -> None:
    lines = summary_of(_with_gains(fault, expected))
    rows = [line for line in lines if re.match(r"(fewer )?page faults |cheaper TLB|total ", line)]
    if len(rows) < 3:
        return
    parts, total = [_figures(row) for row in rows[:2]], _figures(rows[2])
    if any(len(figures) != 3 for figures in (*parts, total)):
        return  # Both ends of an interval read alike.
    for one, other, all_of_it in zip(*parts, total, strict=True):
        step = 1 if abs(all_of_it) >= 9.95 else 0.1
        assert abs(one + other - all_of_it) <= 0.5 * step + 1e-9


@given(shares, shares)
def test_the_verdict_has_the_figures_of_the_total(fault: Interval, expected: Interval) -> None:
    lines = summary_of(_with_gains(fault, expected))
    total = next((line for line in lines if line.startswith("total ")), None)
    named = re.search(r"should save (\S+) % of the .*, at least (\S+) %", " ".join(lines[:2]))
    if total is None or named is None:
        return
    assert [float(named[1]), float(named[2])] == _figures(total)[:2]


def test_what_is_about_nothing_has_no_row() -> None:
    shown = _with_gains(Interval(0.3, 0.25, 0.35), Interval(0.0001, 0.0, 0.0002))
    lines = summary_of(shown)
    assert not any(line.startswith(("cheaper TLB misses", "total")) for line in lines)
    # It would be missed if the others did not add up without it.
    shown = _with_gains(Interval(0.3, 0.25, 0.35), Interval(0.0001, -0.05, 0.0002))
    assert any(line.startswith("total") for line in summary_of(shown))


def test_page_faults_that_cost_more_are_not_called_fewer() -> None:
    shown = _with_gains(Interval(-0.02, -0.03, -0.01), Interval(0.1, 0.09, 0.11))
    assert any(line.startswith("page faults ") for line in summary_of(shown))


def test_no_saving_is_short() -> None:
    lines = summary_of(estimated(0))
    assert len(lines) <= 15
    assert lines[0].startswith("NOT WORTH IT: ")
    assert not any(line.startswith(("Try ", "Prove ")) for line in lines)


def test_a_command_that_fits_is_ready_to_copy() -> None:
    lines = summary_of(advised(("./app", "an argument")))
    assert "Try     GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ./app 'an argument'" in "\n".join(lines)
    assert not any(line.startswith("Program ") for line in lines)


def test_a_long_command_appears_once_and_shortened() -> None:
    argv = ("./app", *(f"--option-{n}=value" for n in range(20)))
    lines = summary_of(advised(argv))
    assert len([line for line in lines if "--option-0" in line]) == 1
    program = next(line for line in lines if line.startswith("... "))
    assert program.startswith("...     ./app --option-0=value")
    assert program.endswith("--option-19=value")
    assert "..." in program[8:]
    assert any(re.match(r"Try     GLIBC_TUNABLES=\S+ \.\.\.", line) for line in lines)
    # In full, to be copied.
    assert " ".join(argv) in text_of(advised(argv))


def test_the_memory_is_what_the_first_advice_is_about() -> None:
    made = advised(("./app",))
    assert made.simulated is not None
    assert made.simulated.attribution is not None
    heap, other = made.simulated.attribution.regions
    code = replace(other, kind="segment", name="/opt/app", code=True, misses_fraction=0.99)
    attribution = replace(made.simulated.attribution, regions=(code, heap, other))
    # Its advice is that of before.
    document = estimate_document(
        replace(made, simulated=replace(made.simulated, attribution=attribution))
    )
    assert str(memory_words(document, 72)).startswith("96 MiB anonymous (build_table), on")
    nothing = estimate_document(
        replace(made, simulated=replace(made.simulated, attribution=attribution), advice=())
    )
    assert str(memory_words(nothing, 72)).startswith("96 MiB app, code")


def test_slow_touches_are_told_and_slow_writes_after_a_fork() -> None:
    slow = stalls(base_ns=30_000, huge_ns=2_000_000)
    forked = msgspec.structs.replace(
        slow, base_forked=slow.base, huge_forked=slow.huge, huge_forked_fraction=0.5
    )
    times = "median 1 ns -> 1 ns, p99 1 ns -> 1 ns, p99.9 1 ns -> 1 ns, worst 30 µs -> 2 ms"
    own = msgspec.structs.replace(slow, base_faults=slow.base, huge_faults=slow.huge)
    few = msgspec.structs.replace(own, huge_kernel={"thp_fault_fallback": 2})
    touch = f"first touch of base -> huge pages: {times}"
    for found, words in (
        (stalls(1, 1000), None),
        (slow, touch),
        (own, f"its own page faults on base -> huge pages: {times}; 9 -> 9 of them; {touch}"),
        (
            few,
            f"its own page faults on base -> huge pages: {times}; 9 -> 9 of them, 2 without a huge "
            f"page; {touch}",
        ),
        (forked, f"{touch}; a write after a fork: {times}; 50 % copied as huge pages"),
    ):
        document = estimate_document(estimated())
        assert stall_words(msgspec.structs.replace(document, stalls=found)) == words


def test_times_add_up_in_one_unit() -> None:
    assert sum_of_times([21.85e6, 4.398e6], 26.248e6) == ["21.85 ms", "4.40 ms", "26.25 ms"]
    assert sum_of_times([12.1e6, 1.37e6], 13.47e6) == ["12.1 ms", "1.4 ms", "13.5 ms"]


def test_what_cannot_be_printed_is_escaped() -> None:
    lines = summary_of(advised(("./app", "a\nb\tc", "d\udcff", "\x1b[31m")))
    program = next(line for line in lines if line.startswith("... "))
    assert "a\\x0ab\\x09c" in program
    assert "d\\xff" in program
    assert "\\x1b[31m" in program
    assert visible("ä\n") == "ä\\n"


def test_related_caveats_are_one() -> None:
    runs = tuple(replace(RUN, wall_ns=n, user_ns=n, system_ns=0) for n in (30_000_000, 40_000_000))
    shown = rebuilt(altered(estimated(), runs=runs))
    assert {"T02", "T03"} <= {caveat.code for caveat in shown.caveats}
    text = "\n".join(summary_of(shown))
    assert len(re.findall(r"^T0[23] ", text, re.MULTILINE)) == 1
    assert re.search(r"\((T02|T03)\)", text)


def test_three_caveats_at_most_worst_first_and_how_many_more() -> None:
    shown = altered(
        estimated(),
        machine=replace(MACHINE, hypervisor="kvm", thp_mode="always"),
        runs=(RUN,),
        codes=(3,),
        run_notes=("a note",),
    )
    text = "\n".join(summary_of(shown))
    codes = re.findall(r"^(T\d\d) ", text, re.MULTILINE)
    assert len(codes) <= 3
    assert codes == [caveat.code for caveat in shown.caveats][: len(codes)]
    assert codes[0] == "T17"
    assert "more caveats: --details" in " ".join(text.split())


def test_more_columns_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = made_up()["counts of a file"]
    monkeypatch.setenv("COLUMNS", "80")
    narrow = summary_of(shown)
    monkeypatch.setenv("COLUMNS", "120")
    wide = summary_of(shown)
    assert max(map(len, wide)) > 80
    assert len(wide) < len(narrow)


def test_a_simulation_of_the_overlap_model_is_the_basis() -> None:
    assert "Basis: simulation, calibrated 2026-01-01" in " ".join(
        summary_of(overlapped(estimated(), interval(0.3)))
    )


def test_numbers_keep_their_units() -> None:
    for width in range(20, 60):
        lines = wrapped("costs 12 % of 30 ms and 4 KiB, or 5.1 GiB at 99.5 % of 10 M", width)
        assert not any(re.search(r"\d$", line) for line in lines[:-1])


def test_the_middle_is_left_out() -> None:
    assert middle("abcdefghij", 10) == "abcdefghij"
    assert middle("abcdefghijk", 10) == "abcd...ijk"
    assert len(middle("x" * 500, 77)) == 77
