# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the right event table found with its events, and are formulas computed as written?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.counting import ACTIVE, COMPLETED
from builders.tree import fails, there
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.common.errors import USAGE
from tlbcost.processors.events import all_pmus, evaluate, load_pmu, named, names, pmu_of, select
from tlbcost.processors.published import PublishedCore, cores
from tlbcost.system.machine import Machine

PMUS = all_pmus()
NOBODY = Machine(None, None, None, None, None, None, None, None, 4096, None, None)


@pytest.mark.parametrize("core", cores(), ids=lambda core: core.core)
def test_each_core_with_a_geometry_has_events(core: PublishedCore) -> None:
    """The two kinds of data agree about which processors there are."""
    processors = core.processors
    assert processors.models
    for model in processors.models:
        family = None if processors.family is None else str(processors.family)
        vendor, name = processors.vendor, str(model)
        found = pmu_of(replace(NOBODY, cpu_vendor=vendor, cpu_family=family, cpu_model=name))
        assert found is not None, f"{core}: no events for model {model:#x}"


def test_no_processor_has_two_tables() -> None:
    owners: dict[tuple[object, ...], str] = {}
    for pmu in PMUS:
        models = pmu.processors.models
        for model in [None] if models is None else models:
            for stepping in [None] if not pmu.processors.steppings else pmu.processors.steppings:
                if pmu.processors.vendor is None:
                    continue
                key = pmu.processors.vendor, pmu.processors.family, model, stepping
                assert key not in owners, f"{key}: {pmu.key} and {owners[key]}"
                owners[key] = pmu.key


@pytest.mark.parametrize(
    ("vendor", "family", "model", "stepping", "key"),
    [("GenuineIntel", "6", "207", "2", "emr"), ("GenuineIntel", "6", "94", "3", "skl"),
     ("GenuineIntel", "6", "85", "4", "skx"), ("GenuineIntel", "6", "85", "7", "clx"),
     ("GenuineIntel", "6", "151", "2", "adl_glc"), ("GenuineIntel", "6", "190", "0", "adl_grt"),
     ("GenuineIntel", "6", "122", "1", "glp"), ("GenuineIntel", "6", "175", "3", "srf"),
     ("GenuineIntel", "6", "9999", "0", None),
     ("AuthenticAMD", "25", "17", "1", "amd64_fam19h_zen4"),
     ("AuthenticAMD", "25", "33", "0", "amd64_fam19h_zen3"),
     ("AuthenticAMD", "21", "2", "0", "amd64_fam15h_interlagos"),
     ("0x41", "8", "0xd0c", "1", "arm_n1"), ("0x48", "8", "0xd01", "0", "arm_kunpeng"),
     ("IBM", None, "0x4e", None, "power9"),
     (None, None, "9006-22P", "2.2 (pvr 004e 1202)", "power9"),
     ("IBM/S390", None, "3906", None, "cpum_cf_z14"), ("riscv", None, None, None, "riscv_sbi"),
     (None, None, None, None, None)],
)  # fmt: skip
def test_the_table_of_a_machine(
    vendor: str | None, family: str | None, model: str | None, stepping: str | None, key: str | None
) -> None:
    cpu = {"cpu_vendor": vendor, "cpu_family": family, "cpu_model": model, "cpu_stepping": stepping}
    found = pmu_of(replace(NOBODY, **cpu))
    assert (found.key if found else None) == key


def test_a_machine_that_hides_its_stepping_has_a_table() -> None:
    machine = replace(NOBODY, cpu_vendor="GenuineIntel", cpu_family="6", cpu_model="85")
    assert there(pmu_of(machine)).key in ("skx", "clx")


@pytest.mark.parametrize(
    ("name", "key"),
    [("skl", "skl"), ("SKL", "skl"), ("skylake", "skl"), ("zen4", "amd64_fam19h_zen4"),
     ("amd64_fam19h_zen4", "amd64_fam19h_zen4"), ("power9", "power9"), ("neoverse-n1", "arm_n1"),
     ("Neoverse N1", "arm_n1"), ("z14", "cpum_cf_z14"), ("generic", "perf")],
)  # fmt: skip
def test_names(name: str, key: str) -> None:
    assert named(name).key == key


def test_every_name_is_of_one_table() -> None:
    owners: dict[str, str] = {}
    for pmu in PMUS:
        for name in (pmu.key, *pmu.aliases):
            assert name.lower() not in owners, f"{name}: {pmu.key} and {owners[name.lower()]}"
            owners[name.lower()] = pmu.key


def test_select() -> None:
    skl = load_pmu("skl")
    found = select(skl, ["walk_active_cycles", "cycles"])
    assert [event.name for event in found] == [*ACTIVE, "cycles"]
    # A role is every access, without those of one page size; each event once.
    chosen = select(skl, ["walks_completed", "walks_completed.load", "walks_completed.load.2M"])
    assert [event.name for event in chosen] == [*COMPLETED, "walks_completed.load.2M"]
    assert [event.type for event in select(skl, ["page_faults"])] == ["software"]


def test_select_refuses_what_is_not_there() -> None:
    with fails("is called 'walk_cycles'", USAGE) as caught:
        select(load_pmu("skl"), ["cycles", "walk_cycles"])
    assert "walk_active_cycles.load" in there(caught.value.hint)


@pytest.mark.parametrize(
    ("expression", "value"),
    [("7", 7), ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("10 - 4 - 3", 3), ("24 / 4 / 2", 3),
     ("1.5 * a", 15), ("min(a, b.load, 5)", 3), ("max(a - b.load.2M, 0)", 0),
     ("min(min(a, 4), max(b.load, 1)) / 2", 1.5)],
)  # fmt: skip
def test_arithmetic(expression: str, value: float) -> None:
    assert evaluate(expression, {"a": 10, "b.load": 3, "b.load.2M": 30}) == value


def test_names_in_formulas() -> None:
    found = names("min(9 * stlb_hits.load + walks_completed.load.2M, cycles) / cycles")
    assert found == {"stlb_hits.load", "walks_completed.load.2M", "cycles"}


def test_what_was_not_counted_is_not_taken_as_0() -> None:
    assert evaluate("min(a, b)", {"a": 1.0}) is None
    assert evaluate("max(a * 0, 1)", {}) is None


def test_a_division_by_zero_is_no_value() -> None:
    assert evaluate("a / cycles", {"a": 1.0, "cycles": 0.0}) is None
    assert evaluate("min(a / cycles, 1)", {"a": 1.0, "cycles": 0.0}) is None


@pytest.mark.parametrize(
    "expression",
    [
        "", "1 +", "(1", "1)", "1 2", "a b", "min(1)", "min 1, 2", "max(1, 2", "(1, 2)", "-1",
        "1 ** 2", "a.b.c.d", "__import__('os')", "a; b", "min", "1e5", "a[0]", "A", "1 + é",
        "(" * 2000 + "1" + ")" * 2000,
    ],
)  # fmt: skip
def test_no_formula(expression: str) -> None:
    with pytest.raises(ValueError, match="not a formula"):
        names(expression)
    with pytest.raises(ValueError, match="not a formula"):
        evaluate(expression, {"a": 1.0, "b": 2.0})


@given(st.text(alphabet="ab.19+-*/(), minax", max_size=40))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        found = names(text)
    except ValueError:
        return
    value = evaluate(text, dict.fromkeys(found, 2.0))
    assert value is None or isinstance(value, float)
