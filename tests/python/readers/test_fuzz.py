# SPDX-License-Identifier: GPL-2.0-or-later
"""Is every file of others either read or refused with a message, whatever is in it?

Plans, estimates, tables, ELF files, logs of perf, text of /proc. `make fuzz` runs this with more
examples: TLBCOST_FUZZ_EXAMPLES. Inputs that once were neither are in tests/fuzz/corpus.
"""
# Files are refused or not: an error is allowed, and not expected.
# ruff: noqa: PT017

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from builders.tree import GOLDEN
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tlbcost.accuracy.record import read_record
from tlbcost.allocators.recognise import read_elf
from tlbcost.answer.estimate_document import read_estimate
from tlbcost.calibration.document import read_document
from tlbcost.calibration.file import read_calibration
from tlbcost.common import formats
from tlbcost.common.errors import FAILED, USAGE, TlbcostError
from tlbcost.common.formats import read_table
from tlbcost.common.paths import data
from tlbcost.counters.importing.file import import_file
from tlbcost.memory.smaps import parse
from tlbcost.processors.events import load_pmu
from tlbcost.review.gate import read_review
from tlbcost.review.plan import read_plan
from tlbcost.symbols.elf import ElfObject
from tlbcost.symbols.resolver import parse_jit

FUZZ = settings(
    max_examples=int(os.environ.get("TLBCOST_FUZZ_EXAMPLES", "5")),
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"
PLAN = data("review", "example.toml").read_bytes()
ESTIMATE = (GOLDEN / "documents" / "simulation-overlap.json").read_bytes()
PROGRAM = Path(shutil.which("true") or "/bin/true").read_bytes()
SMAPS = Path("/proc/self/smaps").read_bytes()[:4000]
JIT_MAP = b"7f00 20 jitted\n"
CALIBRATION = (GOLDEN / "calibration.tsv").read_bytes()
CALIBRATION_JSON = (GOLDEN / "documents" / "calibration.json").read_bytes()
REVIEW = (GOLDEN / "review" / "review.json").read_bytes()
PERF = (GOLDEN / "perf-stat.csv").read_bytes()
PERF_JSON = (GOLDEN / "perf-stat.json").read_bytes()
OPREPORT = (GOLDEN / "opreport-dtlb.txt").read_bytes()
SKYLAKE = load_pmu("skl")
RECORD = data("samples", "amd-zen-5-guest", "trials.tsv").read_bytes()
COUNTS = b"# tlbcost counts 1\npage_size_bytes\taccess\tl1_tlb_misses\tstlb_hits\tstlb_misses\n"
COUNTS += b"4096\tload\t10\t7\t3\n# end: 1\n"
WORDS = [
    b"\n", b"\t", b"NA", b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"#", b'"', b"[", b"]", b"{",
    b"}", b"=", b"[[services]]\n", b"\\u0000", b"null", b"true", b"\0", b"\xff", b"[" * 3000, b"0",
    b"1979-05-27T07:32:00Z", b"'''", b"\x7fELF", b"\x00\x00\x00\x80", b"\xff" * 8, b"# end: 1\n",
]  # fmt: skip
PIECES = st.sampled_from(WORDS)


def elf(path: Path) -> None:
    read_elf(str(path))
    try:
        found = ElfObject.read(path)
    except (OSError, ValueError):
        return
    found.find(0)


def texts(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    parse(text)
    parse_jit(text.splitlines())


READERS: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "plan": (PLAN, read_plan),
    "estimate": (ESTIMATE, read_estimate),
    "calibration": (CALIBRATION, read_calibration),
    "calibration-json": (CALIBRATION_JSON, read_document),
    "review": (REVIEW, read_review),
    "perf": (PERF, lambda path: import_file(path, SKYLAKE)),
    "perf-json": (PERF_JSON, lambda path: import_file(path, SKYLAKE)),
    "opreport": (OPREPORT, lambda path: import_file(path, SKYLAKE)),
    "record": (RECORD, read_record),
    "counts": (COUNTS, lambda path: read_table(path, formats.COUNTS)),
    "elf": (PROGRAM, elf),
    "smaps": (SMAPS, texts),
    "symbols": (JIT_MAP, texts),
}


def read_or_refuse(name: str, path: Path) -> bool:
    """Whether it was read."""
    try:
        READERS[name][1](path)
    except TlbcostError as error:
        assert error.exit_code in (FAILED, USAGE, 125)
        assert str(path) in str(error) or name == "plan"
        return False
    return True


@st.composite
def mutated(draw: st.DrawFn, seed: bytes) -> bytes:
    """A sound file with parts cut out, doubled or replaced; at its beginning more often."""
    made = seed
    for _ in range(draw(st.integers(1, 6))):
        most = draw(st.sampled_from([len(made), min(len(made), 128)]))
        at = draw(st.integers(0, most))
        length = draw(st.sampled_from([0, 1, 2, 4, 8, 30, 200]))
        piece = draw(st.one_of(PIECES, st.binary(max_size=8), st.just(made[at : at + length])))
        made = made[:at] + piece * draw(st.integers(1, 2)) + made[at + length :]
    return made


@pytest.mark.parametrize("name", READERS)
def test_the_sound_file_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(READERS[name][0])
    assert read_or_refuse(name, path)


@pytest.mark.parametrize("name", READERS)
@FUZZ
@given(choice=st.data())
def test_damaged_files(
    tmp_path_factory: pytest.TempPathFactory, name: str, choice: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzzed-{name}"
    path.write_bytes(choice.draw(mutated(READERS[name][0])))
    read_or_refuse(name, path)


@pytest.mark.parametrize("name", READERS)
@FUZZ
@given(content=st.binary(max_size=300))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / f"fuzzed-{name}"
    path.write_bytes(content)
    read_or_refuse(name, path)


FOUND = sorted(path for name in READERS for path in (CORPUS / name).glob("*"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_what_was_found(path: Path) -> None:
    read_or_refuse(path.parent.name, path)
