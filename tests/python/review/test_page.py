# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the HTML report whole, self-contained, and safe from what services are called?"""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from builders.review import HOSTILE, plan_of, result, worth_it
from tlbcost.report.lines import visible
from tlbcost.review.decision import review_document
from tlbcost.review.document import ReviewDocument
from tlbcost.review.page import to_html

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
