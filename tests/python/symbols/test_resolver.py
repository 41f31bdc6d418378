# SPDX-License-Identifier: GPL-2.0-or-later
"""Is the symbol at an offset of an object found, and never one that is not there?"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tlbcost.symbols.binutils import demangled
from tlbcost.symbols.elf import ElfObject, Symbol, SymbolTable
from tlbcost.symbols.resolver import CodePlace, Resolver, parse_jit

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
    subprocess.run(
        ["cc", "-O1", "-Wl,--build-id=sha1", *options, "-o", str(program), str(source)], check=True
    )
    return program


def places(program: Path) -> dict[str, tuple[int, int]]:
    """File offset and size of each function, as readelf and the program's segments tell."""
    text = subprocess.run(
        ["readelf", "-lsW", str(program)], check=True, capture_output=True, text=True
    ).stdout
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
    notes = subprocess.run(
        ["readelf", "-n", str(program)], check=True, capture_output=True, text=True
    ).stdout
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


# A note whose name reaches beyond the end of the file.
@example(b"\xff" * 8, 0x338)
@given(st.binary(max_size=400), st.integers(0, 3000))
def test_a_damaged_file_never_breaks(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, where: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    folder.mkdir(exist_ok=True)
    whole = folder / "p"
    if not whole.exists():
        build(folder)
    damaged = folder / "damaged"
    content = bytearray(whole.read_bytes())
    content[where : where + len(junk)] = junk
    damaged.write_bytes(content)
    Resolver().names([at(str(damaged), 0x1150)])


def test_of_aliases_the_global_one_without_underscores_is_shown() -> None:
    table = SymbolTable(
        [
            Symbol(100, 10, "__libc_malloc", 0),
            Symbol(100, 10, "malloc", 0),
            Symbol(100, 10, "a", 2),
            Symbol(100, 10, "cfree", 1),
            Symbol(300, 0, "open_ended", 0),
        ]
    )
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
