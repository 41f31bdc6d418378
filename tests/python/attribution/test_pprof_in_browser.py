# SPDX-License-Identifier: GPL-2.0-or-later
"""Does speedscope show a profile of page walks? Its screenshot stays in build/speedscope."""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading
from functools import partial
from pathlib import Path

import pytest
from builders.tree import TREE
from playwright.sync_api import sync_playwright
from tlbcost.attribution.pprof import pprof
from tlbcost.simulator.memory_tables import ImageAttribution, SourceLocation, Stack

FOLDER = TREE / "build" / "speedscope"
PAGES = FOLDER / "package" / "dist" / "release"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
pytestmark = [pytest.mark.long, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")]


TABLE = SourceLocation("/opt/app", "make_table", "app.c", 20)
MAIN = SourceLocation("/opt/app", "main", "app.c", 10)
IMAGE = ImageAttribution(
    7, "/opt/app", (), (), (Stack((TABLE, MAIN), 60, 6), Stack((MAIN,), 30, 3)), (), 100_000, 65536
)


@pytest.fixture
def pages() -> Path:
    if not PAGES.exists():
        npm = shutil.which("npm") or pytest.skip("needs npm")
        FOLDER.mkdir(parents=True, exist_ok=True)
        words = [npm, "pack", "speedscope@1.25.0"]
        if subprocess.run(words, cwd=FOLDER, capture_output=True, check=False).returncode != 0:
            pytest.skip("npm has no speedscope here")
        shutil.unpack_archive(FOLDER / "speedscope-1.25.0.tgz", FOLDER)
    return PAGES


def test_speedscope_shows_functions_and_units(pages: Path) -> None:
    (pages / "walks.pb.gz").write_bytes(pprof([IMAGE], 2e9))
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(pages))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{server.server_port}/"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(f"{here}index.html#profileURL={here}walks.pb.gz")
            page.get_by_text("Sandwich").click()
            page.get_by_text("make_table").first.wait_for()
            page.screenshot(path=FOLDER / "speedscope.png")
            text = page.inner_text("body")
            browser.close()
        server.shutdown()
    assert "make_table" in text
