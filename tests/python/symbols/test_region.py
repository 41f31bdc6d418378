# SPDX-License-Identifier: GPL-2.0-or-later
"""Are functions and markers found by their names, and what is said where they are not?"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from builders.tree import TREE
from tlbcost.common.errors import TlbcostError
from tlbcost.symbols.region import region_of

ONE = "static __attribute__((noinline)) int twin(int x) { return x * 3; }\n"
ANOTHER = """
#include <tlbcost-marker.h>
extern "C" int one(int x);
namespace n {
struct S {
    __attribute__((noinline)) int go(int x);
    __attribute__((noinline)) int go(long x);
    __attribute__((noinline)) int stop(int x);
};
int S::go(int x) { return x + 1; }
int S::go(long x) { return int(x) + 2; }
int S::stop(int x) { TLBCOST_MARK("stopping"); return x; }
}
static inline __attribute__((always_inline)) int folded(int x) { return x * 7; }
extern "C" { static __attribute__((noinline)) int twin(int x) { __asm__(""); return x * 5; } }
int main(int argc, char **) {
    n::S s;
    TLBCOST_MARK("here");
    int sum = one(argc) + twin(argc) + s.go(argc) + s.go((long)argc) + s.stop(argc);
    TLBCOST_MARK("here");
    return sum + folded(argc);
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("g++") or not shutil.which("strip"):
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("region")
    (folder / "one.c").write_text(f"{ONE}int one(int x) {{ return twin(x); }}\n", encoding="utf-8")
    (folder / "p.cc").write_text(ANOTHER, encoding="utf-8")
    include = f"-I{TREE / 'profiler' / 'region'}"
    run = ("gcc", "-O1", "-g", "-c", "-o", "one.o", "one.c")
    subprocess.run(run, check=True, cwd=folder)
    run = ("g++", "-O1", "-g", include, "-o", "p", "p.cc", "one.o")
    subprocess.run(run, check=True, cwd=folder)
    subprocess.run(("strip", "-o", "stripped", "p"), check=True, cwd=folder)
    return folder / "p"


def symbols(program: Path) -> dict[str, int]:
    """Addresses, which these small programs have as offsets, too."""
    done = subprocess.run(("nm", "-C", program), check=True, capture_output=True, text=True)
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


@pytest.mark.parametrize("name", ["n::S::go(int)", "n::S::stop", "_ZN1n1S2goEi", "one"])
def test_a_function_is_found_by_each_of_its_names(program: Path, name: str) -> None:
    known = symbols(program)
    full = {"n::S::stop": "n::S::stop(int)", "_ZN1n1S2goEi": "n::S::go(int)"}.get(name, name)
    found = region_of(f"{name}:main", program)
    assert found.starts == (f"{known[full]}:{program}",)
    assert found.ends == (f"{known['main']}:{program}",)


def test_an_address_and_another_file_can_be_named(program: Path) -> None:
    at = symbols(program)["one"]
    assert region_of(f"{at:#x}@{program}", Path("/bin/sh")).starts == (f"{at}:{program}",)


def test_a_marker_is_all_its_places_and_stays_when_stripped(program: Path) -> None:
    found = region_of("@here:@tlbcost/stopping", program)
    assert len(found.starts) == 2
    assert len(found.ends) == 1
    known = symbols(program)
    stop = int(found.ends[0].split(":")[0])
    assert known["n::S::stop(int)"] <= stop < known["n::S::stop(int)"] + 16
    code = program.read_bytes()
    assert [code[int(place.split(":")[0])] for place in found.starts] == [0x90, 0x90]
    stripped = region_of("@here:", program.with_name("stripped"))
    assert [each.split(":")[0] for each in stripped.starts] == [
        each.split(":")[0] for each in found.starts
    ]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("n::S::go", "2 functions of .* are called n::S::go", "n::S::go(long) (p.cc:"),
        ("twin", "2 functions of .* are called twin", "(one.c:1)"),
        ("folded", "folded has no code of its own", "noinline"),
        ("maine", "has no function maine", "did you mean main?"),
        ("@hero", "has no marker hero", "it has @here"),
        ("one:0x1@/dev/null", "cannot look for 0x1 in /dev/null", "0x1@/path/to/program"),
        ("0x7fffffff", "0x7fffffff is not in what is loaded", ""),
        ("one:one", "would end where it begins", "END"),
        ("main@stripped", "it has no symbols", "tlbcost-marker.h"),
        ("one@/no/such", "cannot look for one in /no/such: No such file", "one@"),
    ],
)
def test_what_is_not_found_is_said_with_what_comes_near(
    program: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str, hint: str
) -> None:
    monkeypatch.chdir(program.parent)
    with pytest.raises(TlbcostError, match=message) as raised:
        region_of(text, program)
    assert raised.value.exit_code == 2
    assert hint in (raised.value.hint or "")


def test_a_function_that_the_processor_decides_has_to_be_named(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("no C compiler")
    source = tmp_path / "p.c"
    source.write_text(
        "static int x_fast_1(void) { return 1; }\n"
        "static int (*pick(void))(void) { return x_fast_1; }\n"
        'int x(void) __attribute__((ifunc("pick")));\n'
        "int main(void) { return x(); }\n",
        encoding="utf-8",
    )
    built = subprocess.run(("gcc", "-o", tmp_path / "p", source), check=False)
    if built.returncode != 0:
        pytest.skip("no indirect functions here")
    with pytest.raises(TlbcostError, match="several functions for x, of which the CPU") as raised:
        region_of("x", tmp_path / "p")
    assert "name that one" in (raised.value.hint or "")
