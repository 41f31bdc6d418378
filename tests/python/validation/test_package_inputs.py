# SPDX-License-Identifier: GPL-2.0-or-later
"""Is what packaged programs read the same each time, and what their formats say?"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tlbcost.validation.session import read_suite

WORKLOADS = Path(__file__).parents[3] / "workloads"
GENERATOR = WORKLOADS / "inputs/package-inputs.py"
SCRIPTS = WORKLOADS / "suite"
KINDS = (
    "alignment", "clauses", "documents", "drawing", "events", "functions", "network", "orders",
    "points", "reads", "transport",
)  # fmt: skip


def printed(kind: str, size: int) -> str:
    words = [sys.executable, GENERATOR, kind, "--size", str(size)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_the_same_twice_and_grows(kind: str) -> None:
    first = printed(kind, 20)
    assert printed(kind, 20) == first
    assert len(printed(kind, 60)) > len(first)


def test_the_suite_reads_all_of_them_and_no_others() -> None:
    words = [Path(word) for task in read_suite() for word in task.argv if "/inputs/" in word]
    assert sorted(word.name for word in words) == sorted(KINDS)


def test_formulas_have_as_many_clauses_as_they_say() -> None:
    head, *clauses = printed("clauses", 100).splitlines()
    assert head == f"p cnf 100 {len(clauses)}"
    for clause in clauses:
        *literals, end = map(int, clause.split())
        assert end == 0
        assert len(literals) == 3
        assert all(1 <= abs(literal) <= 100 for literal in literals)


def test_structured_text_can_be_read() -> None:
    events = json.loads(printed("events", 100))
    assert [event["at"] for event in events] == list(range(100))
    shop = ElementTree.fromstring(printed("orders", 100))
    customers = {customer.get("id") for customer in shop.iter("customer")}
    assert len(customers) == 10
    assert {order.get("customer") for order in shop.iter("order")} <= customers


def test_rows_have_their_columns() -> None:
    points = printed("points", 50).splitlines()
    assert points[:2] == ["3", "50"]
    assert all(len([float(word) for word in line.split()]) == 3 for line in points[2:])
    for line in printed("documents", 50).splitlines():
        _, *words = line.split()
        columns = [int(word.partition(":")[0]) for word in words]
        assert columns == sorted(set(columns))
    genes = printed("alignment", 30).split()[1::2]
    assert {len(gene) for gene in genes} == {3000}
    assert all(re.fullmatch("[ACGT]{50}", read) for read in printed("reads", 50).split()[1::2])


def test_towns_have_the_orders_of_their_customers(tmp_path: Path) -> None:
    if shutil.which("xsltproc") is None:
        pytest.skip("needs xsltproc (scripts/install-deps --accuracy)")
    file = tmp_path / "orders"
    file.write_text(printed("orders", 300))
    words = ["xsltproc", SCRIPTS / "orders.xsl", file]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    shop = ElementTree.parse(file).getroot()
    towns = {c.get("id"): c.findtext("town") for c in shop.iter("customer")}
    town, count, price = done.stdout.split()
    prices = [
        int(order.findtext("price") or "")
        for order in shop.iter("order")
        if towns[order.get("customer")] == town
    ]
    assert (int(count), int(price)) == (len(prices), sum(prices))


def test_the_village_tells_the_same_each_time_and_refuses_what_it_cannot() -> None:
    if shutil.which("lua5.4") is None:
        pytest.skip("needs lua5.4 (scripts/install-deps --accuracy)")

    def village(*options: str) -> subprocess.CompletedProcess[str]:
        words = ["lua5.4", str(SCRIPTS / "village.lua"), "--people", "100", *options]
        return subprocess.run(words, check=False, capture_output=True, text=True)

    first = village("--count", "1000").stdout
    assert re.fullmatch("checksum [0-9a-f]{16}\n", first)
    assert village("--count", "1000").stdout == first != village("--count", "1001").stdout
    refused = village("--count", "0")
    assert refused.returncode == 2
    assert refused.stderr == "village.lua: --count needs a number of at least 1\n"
