# SPDX-License-Identifier: GPL-2.0-or-later
"""Are symbols, markers and files found by offset and name, and never one that is not there?"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders.tree import TREE, fails, there
from tlbcost.common.errors import TlbcostError
from tlbcost.symbols.elf import ElfObject, Symbol, SymbolTable
from tlbcost.symbols.region import region_of
from tlbcost.symbols.resolver import CodePlace, Resolver, demangled, mapped_file, parse_jit

SOURCE = """
int data_object = 7;
__attribute__((noinline)) int first(int x) { return x * 3 + data_object; }
static __attribute__((noinline, used)) int hidden(int x) { return x * 5 + data_object; }
__attribute__((noinline)) int second(int x) { return hidden(x) + first(x); }
int main(int argc, char **argv) { (void)argv; return second(argc); }
"""


def build(folder: Path, *options: str) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source, program = folder / "p.c", folder / "p"
    source.write_text(SOURCE, encoding="utf-8")
    words = ["cc", "-O1", "-Wl,--build-id=sha1", *options, "-o", str(program), str(source)]
    subprocess.run(words, check=True)
    return program


def places(program: Path) -> dict[str, tuple[int, int]]:
    """File offset and size of each function, as readelf and the program's segments tell."""
    text = subprocess.check_output(["readelf", "-lsW", str(program)], text=True)
    loads, found = [], {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["LOAD"]:
            loads.append((int(words[1], 16), int(words[2], 16), int(words[4], 16)))
        elif len(words) == 8 and words[3] == "FUNC" and words[6] != "UND":
            address, size = int(words[1], 16), int(words[2], 0)
            for offset, start, length in loads:
                if start <= address < start + length:
                    found[words[7]] = (address - start + offset, size)
    return found


def at(path: str | None, offset: int, pid: int = 1) -> CodePlace:
    return CodePlace(pid, path, offset)


@pytest.mark.parametrize("options", [("-pie", "-fPIE"), ("-no-pie",), ("-static",)])
def test_each_byte_of_a_function_and_none_next_to_it(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    program = build(tmp_path, *options)
    where = places(program)
    found = ElfObject.read(program)
    for name in ("first", "hidden", "second", "main"):
        offset, size = where[name]
        assert {found.find(offset + i) for i in range(size)} == {name}
    assert found.find(1 << 40) is None
    assert found.find(0) is None


def test_without_symbols_only_dynamic_ones(tmp_path: Path) -> None:
    program = build(tmp_path, "-rdynamic")
    where = places(program)
    subprocess.run(["strip", str(program)], check=True)
    found = ElfObject.read(program)
    assert found.find(where["first"][0]) == "first"
    assert found.find(where["hidden"][0]) is None


def test_symbols_kept_apart_are_found_by_build_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(tmp_path)
    where = places(program)
    notes = subprocess.check_output(["readelf", "-n", str(program)], text=True)
    build_id = notes.split("Build ID: ")[1].split()[0]
    debug = tmp_path / build_id[:2] / f"{build_id[2:]}.debug"
    debug.parent.mkdir()
    subprocess.run(["objcopy", "--only-keep-debug", str(program), str(debug)], check=True)
    subprocess.run(["strip", str(program)], check=True)
    assert ElfObject.read(program).find(where["hidden"][0]) is None
    monkeypatch.setattr("tlbcost.symbols.elf._DEBUG", tmp_path)
    assert ElfObject.read(program).find(where["hidden"][0]) == "hidden"


def test_files_that_are_none_or_gone_are_reported(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"\x7fELF" + bytes(range(256)) * 4)
    symbols = Resolver()
    assert symbols.names([at(str(garbage), 5), at(str(tmp_path / "gone"), 5)]) == [None, None]
    assert [note.split(" ")[0] for note in symbols.notes] == [str(garbage), str(tmp_path / "gone")]


def test_a_cut_file_never_breaks(tmp_path: Path) -> None:
    program = build(tmp_path).read_bytes()
    cut = tmp_path / "cut"
    for length in range(0, len(program), 97):
        cut.write_bytes(program[:length])
        Resolver().names([at(str(cut), 0x1150)])


def test_of_aliases_the_global_one_without_underscores_is_shown() -> None:
    names = (("__libc_malloc", 0), ("malloc", 0), ("a", 2), ("cfree", 1))
    same = [Symbol(100, 10, *each) for each in names]
    table = SymbolTable([*same, Symbol(300, 0, "open_ended", 0)])
    assert [table.find(address) for address in (99, 100, 109, 110, 300, 10**6)] == [
        None, "malloc", "malloc", None, "open_ended", "open_ended",
    ]  # fmt: skip


def test_maps_of_jit_compilers() -> None:
    lines = ["1000 20 void Main::loop(int)\n", "2000 8 old\n", "2000 8 new\n", "x y z\n", "10\n"]
    table = SymbolTable(parse_jit(lines))
    assert table.find(0x101F) == "void Main::loop(int)"
    assert table.find(0x1020) is None
    assert table.find(0x2000) == "new"


def test_a_jit_map_is_read_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "perf-4.map").write_text("1000 20 compiled\n", encoding="utf-8")
    monkeypatch.setattr("tlbcost.symbols.resolver.JIT_MAPS", tmp_path)
    symbols = Resolver()
    places = [at(None, 0x1004, pid=4), at(None, 0x1004, pid=5)]
    assert symbols.names(places) == ["compiled", None]
    assert "perf-4.map" in symbols.notes[0]
    monkeypatch.setattr("tlbcost.symbols.resolver._trusted", lambda: {-1})
    foreign = Resolver()
    assert foreign.names(places[:1]) == [None]
    assert "another user" in foreign.notes[0]


def test_names_of_cxx_are_readable() -> None:
    if shutil.which("c++filt") is None:
        pytest.skip("no c++filt")
    assert demangled(["_ZN3foo3barEi", "plain"]) == {"_ZN3foo3barEi": "foo::bar(int)"}


def test_without_cxxfilt_they_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert demangled(["_ZN3foo3barEi"]) == {}


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
    text = subprocess.check_output(("nm", "-C", program), text=True)
    rows = [line.split(maxsplit=2) for line in text.splitlines()]
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
    with fails(message, 2, hint):
        region_of(text, program)


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


NOBODY = 2**31 - 2


@pytest.mark.parametrize(
    ("pid", "later"), [(os.getpid(), 0), (NOBODY, 0), (NOBODY, 1)],
    ids=["still there", "its process has ended", "it was replaced"],
)  # fmt: skip
def test_a_file_is_recognised_by_its_name(tmp_path: Path, pid: int, later: int) -> None:
    own = tmp_path / "library"
    own.touch()
    assert mapped_file(pid, str(own), own.stat().st_ino + later, 0, 4096) == str(own)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[int]:
    """A process that has a file system of its own at `tmp_path`/files, with `library` in it."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        pytest.skip("needs root and unshare")
    files = tmp_path / "files"
    files.mkdir()
    script = 'mount -t tmpfs none "$1" && echo other >"$1/library" && echo ready && exec sleep 60'
    with subprocess.Popen(
        [unshare, "--mount", "sh", "-c", script, "sh", str(files)], stdout=subprocess.PIPE
    ) as process:
        if there(process.stdout).readline() != b"ready\n":
            pytest.skip("no mount namespaces here")
        yield process.pid
        process.kill()


def test_a_file_of_another_mount_namespace(elsewhere: int, tmp_path: Path) -> None:
    name = tmp_path / "files" / "library"
    inside = Path(f"/proc/{elsewhere}/root{name}")
    found = mapped_file(elsewhere, str(name), inside.stat().st_ino, 0, 4096)
    assert Path(found).read_text(encoding="ascii") == "other\n"
    # Not ours of the same name, though the other one was removed.
    name.write_text("ours\n", encoding="ascii")
    removed = mapped_file(elsewhere, str(name), name.stat().st_ino + 1_000_000, 0, 4096)
    assert removed == str(inside)
