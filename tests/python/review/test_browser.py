# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the HTML report right in a browser: on a desk, on a phone, in the dark, on paper, by keyboard?

Screenshots and the PDF stay below build/review-pages/, to be looked at.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from builders.calibration import of_this_machine
from builders.review import fleet, fleet_review
from builders.tree import TREE
from playwright.sync_api import Browser, Page, Route, sync_playwright
from tlbcost.calibration.records import Obtained
from tlbcost.review.document import ReviewDocument
from tlbcost.review.text import to_html

SCREENS = TREE / "build" / "review-pages"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]
# It runs as root in containers, which have no GPU either, and is to ask nobody for anything.
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
WIDTHS = (1280, 390)
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
# WCAG 2.1, level AA, text of usual size.
LEAST_CONTRAST = 4.5


@dataclass
class Shown:
    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*ARGUMENTS])
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def curve() -> str:
    """Translation time over footprint: a step at the end of each TLB."""
    head = ("probe", "page_size_bytes", "layout", "spacing_bytes", "access", "lines", "ns",
            "low_ns", "high_ns")  # fmt: skip
    lines = ["# tlbcost curve 2", "# date: 2026-01-01T00:00:00Z", "# version: 1.0", "\t".join(head)]
    for pages, ns in ((16, 0.1), (64, 0.2), (96, 2.1), (1024, 2.2), (4096, 20.0), (65536, 30.0)):
        lines.append(f"tlb\t4096\tspread\t4096\tserial\t{pages}\t{ns}\t{ns * 0.9}\t{ns * 1.1}")
    return "\n".join([*lines, f"# end: {len(lines) - 4}"]) + "\n"


def written(folder: Path, review: ReviewDocument | None = None) -> Path:
    calibrations = {"large": Obtained(of_this_machine(), "from a test", curve())}
    file = folder / "review.html"
    text = to_html(fleet_review(folder) if review is None else review, calibrations)
    file.write_text(text, encoding="utf-8")
    return file


class Opener:
    """Opens files, and closes what it opened."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._shown: list[Shown] = []

    def __call__(self, file: Path, width: int = 1280, scheme: Scheme = "light") -> Shown:
        context = self._browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        shown = Shown(context.new_page())
        self._shown.append(shown)
        page = shown.page
        page.on("console", lambda message: shown.console.append(message.text))
        page.on("pageerror", lambda error: shown.console.append(str(error)))

        def passed(route: Route) -> None:
            shown.requests.append(route.request.url)
            route.continue_()

        page.route("**/*", passed)
        page.goto(file.as_uri())
        return shown

    def close(self) -> None:
        """Nothing may have been said, and nothing asked for but the file."""
        for shown in self._shown:
            shown.page.context.close()
            assert shown.console == []
            assert [url for url in shown.requests if not url.startswith("file:///")] == []
            assert len(shown.requests) == 1


@pytest.fixture
def show(browser: Browser) -> Iterator[Opener]:
    opener = Opener(browser)
    yield opener
    opener.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_every_screen(show: Opener, tmp_path: Path, width: int, scheme: Scheme) -> None:
    page = show(written(tmp_path), width, scheme).page
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"review-{width}-{scheme}.png", full_page=True)
    # Wide tables scroll by themselves, never the page.
    assert page.evaluate("document.documentElement.scrollWidth") == width
    first = page.get_by_role("row").filter(has_text="cache").first
    assert "adopt" in first.inner_text()
    assert first.bounding_box() is not None


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_contrast(show: Opener, tmp_path: Path, scheme: Scheme) -> None:
    page = show(written(tmp_path), scheme=scheme).page
    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper < 0.1) == (scheme == "dark")
    for selector in ("body", "a", "pre", *(f".{d}" for d in ("adopt", "blocked", "undecided"))):
        ink = luminance(
            page.evaluate("name => getComputedStyle(document.querySelector(name)).color", selector)
        )
        contrast = (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05)
        assert contrast >= LEAST_CONTRAST, selector


def luminance(colour: str) -> float:
    """Relative luminance of rgb(r, g, b), by WCAG 2.1."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_screen_reader_has_tables_headings_and_alternatives(
    show: Opener, tmp_path: Path, width: int
) -> None:
    page = show(written(tmp_path), width).page
    tables = page.get_by_role("table")
    assert tables.count() == page.locator("table").count() == page.locator("caption").count()
    decisions = tables.first
    assert decisions.get_by_role("columnheader").count() == 10
    assert decisions.get_by_role("rowheader").count() == 7
    pictures = page.get_by_role("img")
    names = [pictures.nth(i).get_attribute("aria-label") or "" for i in range(pictures.count())]
    assert len(names) == page.locator("svg").count() == 2
    assert names[0].startswith("Forest plot")
    assert names[1].startswith("Translation time by footprint")
    # One h1, and no level is skipped.
    levels = [int(tag[1]) for tag in page.locator("h1, h2, h3, h4").evaluate_all(
        "all => all.map(each => each.tagName)")]  # fmt: skip
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = page.locator("[id]").evaluate_all("all => all.map(each => each.id)")
    assert len(ids) == len(set(ids))
    for attribute in ("aria-labelledby", "aria-describedby"):
        for element in page.locator(f"[{attribute}]").all():
            assert element.get_attribute(attribute) in ids


def test_the_keyboard_reaches_everything(show: Opener, tmp_path: Path) -> None:
    page = show(written(tmp_path)).page
    focused = []
    wanted = page.locator("a, [tabindex='0']").count()
    for _ in range(wanted):
        page.keyboard.press("Tab")
        focused.append(page.evaluate(
            "[document.activeElement.tagName, document.activeElement.getAttribute('href'),"
            " getComputedStyle(document.activeElement).outlineStyle]"))  # fmt: skip
    assert len(focused) == wanted
    assert all(outline != "none" for _, _, outline in focused)
    assert focused[0][1] == "#decisions"
    assert {href for tag, href, _ in focused if tag == "A"} >= {f"#row-{n}" for n in range(1, 8)}
    page.locator("a[href='#row-1']").focus()
    page.keyboard.press("Enter")
    assert page.url.endswith("#row-1")


def test_it_prints(show: Opener, tmp_path: Path) -> None:
    page = show(written(tmp_path), scheme="dark").page
    file = SCREENS / "review.pdf"
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.pdf(path=file, prefer_css_page_size=True, print_background=True)
    assert file.read_bytes().startswith(b"%PDF-")
    page.emulate_media(media="print")
    # Paper is white, whatever the screen is.
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    if shutil.which("pdftotext") is None:
        pytest.skip("the rest needs pdftotext")
    text = subprocess.run(
        ["pdftotext", "-layout", file, "-"], capture_output=True, text=True, check=True
    ).stdout
    plan, _ = fleet(tmp_path)
    for service in plan.services:
        assert service.name in text
    # Nothing is cut off at the right: the last column's figure is there.
    assert "52,560" in text
