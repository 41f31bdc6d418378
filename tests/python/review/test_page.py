# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the HTML report whole, self-contained, and safe from what services are called?"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from platform import python_version as version

import msgspec
import pytest
from builders.calibration import of_this_machine
from builders.review import FLEET, HOSTILE, fleet, fleet_review, plan_of, result, worth_it
from tlbcost.accuracy.record import TrackRecord
from tlbcost.calibration.file import write_calibration
from tlbcost.calibration.records import Obtained
from tlbcost.report.lines import visible
from tlbcost.review import document
from tlbcost.review.document import ReviewDocument, calibrations, review_document
from tlbcost.review.text import to_html


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the calibrations and the record of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


_EMPTY = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements with their attributes, text, and whether all elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def review_of(folder: Path, *names: str) -> ReviewDocument:
    services = "".join(f"[[services]]\nname = '{i}'\ncommand = ['x']\n" for i in range(len(names)))
    results = [result(str(i), worth_it()) for i in range(len(names))]
    found = review_document(plan_of(folder, services), results)
    rows = [
        msgspec.structs.replace(row, service=names[int(row.service)], machine=names[0])
        for row in found.rows
    ]
    return msgspec.structs.replace(found, rows=rows)


def test_it_loads_nothing(tmp_path: Path) -> None:
    page = Page(to_html(review_of(tmp_path, "one", "two")))
    kinds = {tag for tag, _ in page.elements}
    assert kinds.isdisjoint({"script", "link", "img", "iframe", "object", "base", "form"})
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href", "data", "action"):
            assert (attributes.get(name) or "#").startswith("#")


def test_tables_have_captions_and_headers(tmp_path: Path) -> None:
    page = Page(to_html(review_of(tmp_path, "one")))
    count = {kind: sum(tag == kind for tag, _ in page.elements) for kind in ("table", "caption")}
    # Decisions, memory that misses, pools, accuracy.
    assert count["table"] == count["caption"] == 4
    scopes = [attributes.get("scope") for tag, attributes in page.elements if tag == "th"]
    assert set(scopes) == {"col", "row"}
    pictures = [attributes for _, attributes in page.elements if attributes.get("role") == "img"]
    assert len(pictures) == 1
    assert all(attributes.get("aria-label") for attributes in pictures)
    assert ("html", {"lang": "en"}) in page.elements
    targets = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    links = {attributes["href"] for tag, attributes in page.elements if tag == "a"}
    assert links <= {f"#{target}" for target in targets}


def test_hostile_names_are_text(tmp_path: Path) -> None:
    text = to_html(review_of(tmp_path, HOSTILE))
    page = Page(text)
    assert visible(HOSTILE) in "".join(page.text)
    assert "script" not in {tag for tag, _ in page.elements}
    assert "\x1b" not in text
    # It would turn what follows around.
    assert "\u202e" not in text


def test_without_gains_there_is_no_figure(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "[[services]]\nname = 'one'\ncommand = ['x']\n")
    page = Page(to_html(review_document(plan, [result("one", None, failure="gone")])))
    assert "figure" not in {tag for tag, _ in page.elements}
    assert "gone" in "".join(page.text)


@pytest.mark.parametrize("name", ["{{ 7 * 7 }}", "</pre>", "a & b"])
def test_a_name_is_no_template(tmp_path: Path, name: str) -> None:
    assert name in "".join(Page(to_html(review_of(tmp_path, name))).text)


def text_of(review: ReviewDocument, calibrations: dict[str, Obtained] | None = None) -> str:
    return " ".join(" ".join(Page(to_html(review, calibrations)).text).split())


def test_a_service_has_who_misses_and_what_to_do(tmp_path: Path) -> None:
    text = text_of(fleet_review(tmp_path))
    for words in (
        "anonymous memory",
        "build_table(std::string) (table.cc:17): 100 % of its walks",
        "Start the service without GLIBC_TUNABLES",
        "umount /mnt/tlbcost-hugetlbfs rmdir /mnt/tlbcost-hugetlbfs",
        "medium: HugePages-2Mi",
        "The first touch of a huge page takes 80 µs, of a base page 500 ns",
        "Memory added to one instance: 3 MiB, 1.2 % of what it touches",
        "after a fork, writes split the huge pages again",
        "cd /plans && MODE='a b' tlbcost estimate -- ./app </plans/requests",
    ):
        assert words in text, words


def test_caveats_have_their_sentence_and_what_to_do(tmp_path: Path) -> None:
    review = fleet_review(tmp_path)
    caveats = [caveat for row in review.rows for caveat in row.caveats]
    assert caveats
    text = text_of(review)
    for caveat in caveats:
        assert f"{caveat.code} {caveat.sentence}" in text
        assert caveat.remedy is None or caveat.remedy in text


def test_a_host_has_its_pools_and_what_does_not_fit(tmp_path: Path) -> None:
    text = text_of(fleet_review(tmp_path))
    assert "tables , all its instances 520 MiB yes index , all its instances 1.17 GiB no" in text
    assert "Sum of what fits 520 MiB 25 % of the memory" in text
    assert "Allowed for pools, 50 % 1 GiB Memory of a host 2 GiB" in text
    assert "Does not fit: index" in text


def test_a_calibration_is_shown_with_what_was_kept_of_it(tmp_path: Path) -> None:
    review = fleet_review(tmp_path)
    assert "Calibrated costs" not in text_of(review)
    text = text_of(review, {"large": Obtained(of_this_machine(), "from a test")})
    assert "page walk 10 ns to 30 ns" in text
    assert "The curve behind this calibration was not kept" in text


def test_the_calibration_is_the_one_that_estimates_used(tmp_path: Path) -> None:
    made = of_this_machine()
    file = tmp_path / "calibration-1.tsv"
    write_calibration(file, made)
    (tmp_path / "curve-1.tsv").write_text("the curve", encoding="utf-8")
    text = FLEET.replace("[machines.large]", '[machines.large]\ncalibration = "calibration-1.tsv"')
    _, results = fleet(tmp_path)
    plan = plan_of(tmp_path, text)
    review = review_document(plan, results)
    assert review.machines[0].calibration is not None
    assert review.machines[0].calibration.date == made.date
    assert review.machines[0].host == made.machine
    # The other one is of a machine that has no calibration in its cache.
    found = calibrations(plan, review)
    assert list(found) == ["large"]
    assert found["large"].curve == "the curve"


def test_accuracy_is_that_of_the_hosts_cpus_else_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_of(fleet_review(tmp_path))
    assert "There is no record of these hosts' CPUs" in text
    assert "another CPU" in text
    record = TrackRecord(True, "2026-01-01T00:00:00Z", 30, 27, 0.013, 0.037)
    monkeypatch.setattr(document, "track_records", lambda _: {"measured": record})
    text = text_of(fleet_review(tmp_path))
    assert "large measured: base and huge pages in turns 30 27 1.3 % 3.7 % 2026-01-01" in text
    assert "another CPU" not in text


def test_versions_are_named(tmp_path: Path) -> None:
    text = text_of(fleet_review(tmp_path))
    assert f"This review tlbcost 1.0, 2026-01-02T03:04:05Z; Python {version()}" in text
    assert "Its estimates tlbcost 1.0" in text
