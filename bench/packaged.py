# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimates of packaged programs, each followed at once by four pairs of runs with its remedy.

Writes doc/accuracy.md. A program that is not installed is left out. `--load COMMAND` runs next to
it all, such as 'stress-ng --cpu 1 --vm 1'.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "accuracy.md"
BEGIN, END = "<!-- packaged: begin -->\n", "<!-- packaged: end -->\n"
PAIRS = "4"

LUA = """local t={} local x=1
for i=1,%d do x=(x*16807)%%2147483647 t[i]=x end
local s=0 for k=1,%d do x=(x*16807)%%2147483647 s=s+t[x%%%d+1] end print(s)"""
STRINGS = """local t={} local x=1
for i=1,1500000 do x=(x*16807)%2147483647 t["k"..(x%1000000)]={x,i} end
local s=0 for k=1,3000000 do x=(x*16807)%2147483647
local v=t["k"..(x%1000000)] if v then s=s+v[1]%7 end end print(s)"""
JAVA = """import java.util.*; public class Tree { public static void main(String[] a) {
TreeMap<Integer,Integer> m=new TreeMap<>(); Random r=new Random(1); long s=0;
for(int i=0;i<1500000;i++) m.put(r.nextInt(),i);
for(int i=0;i<2500000;i++){ var e=m.ceilingEntry(r.nextInt()); if(e!=null) s+=e.getValue(); }
System.out.println(s);} }"""
PYTHON = """import random
r=random.Random(1); d={r.getrandbits(40):i for i in range(2500000)}
k=list(d); r.shuffle(k); s=0
for _ in range(3):
    for x in k: s+=d[x]
print(s)"""
GO = """package main
import "fmt"
func main(){ m:=map[uint64]uint64{}; x:=uint64(88172645463325252); s:=uint64(0)
for i:=0;i<4000000;i++ { x^=x<<13;x^=x>>7;x^=x<<17; m[x%8000000]=x }
for i:=0;i<20000000;i++ { x^=x<<13;x^=x>>7;x^=x<<17; s+=m[x%8000000] }; fmt.Println(s) }"""
SQL = """create table t(id integer primary key, k integer, v text);
with recursive c(n) as (select 1 union all select n+1 from c where n<1000000)
insert into t select n, (n*7919)%1000003, 'value'||n from c; create index i on t(k);
select sum(length(b.v)) from t a join t b on b.k=(a.id*31)%1000003;
select count(distinct v) from t;"""
RUBY = """h={}; x=1; 2000000.times{|i| x=(x*1103515245+12345)&0x7fffffff; h[x]=i}
s=0; h.keys.shuffle(random: Random.new(1)).each{|e| s+=h[e]}; puts s"""
# What is written, and what prepares it; then the command by the name of its program.
FILES = {
    "t.lua": LUA % (6_000_000, 250_000_000, 6_000_000), "strings.lua": STRINGS, "Tree.java": JAVA,
    "d.py": PYTHON, "main.go": GO, "q.sql": SQL, "h.rb": RUBY,
}  # fmt: skip
PREPARE = {"bwa": "bwa index ref.fa", "java": "javac Tree.java", "go": "go build -o gomap main.go"}
COMMANDS = {
    "luajit": "luajit t.lua",
    "lua5.4": "lua5.4 strings.lua",
    "minimap2": "minimap2 -t1 -x map-ont ref.fa long.fq",
    "stockfish": "stockfish bench 512 1 15",
    "sqlite3": "sh -c 'sqlite3 :memory: <q.sql'",
    "bwa": "sh -c 'head -120000 reads.fq | bwa mem -t1 ref.fa -'",
    "java": "java -XX:+UseSerialGC -Xmx1g Tree",
    "python3": "python3 d.py",
    "go": "./gomap",
    "ruby": "ruby h.rb",
    "pypy3": "pypy3 d.py",
    "sort": "sort --parallel=1 -S 2G ref.fa",
}


@dataclass(frozen=True, slots=True)
class Row:
    """Of one program, in points of the CPU time: what was said, and the mean of four pairs."""

    name: str
    document: dict[str, object]
    way: str
    user: tuple[float, float] | None
    total: tuple[float, float] | None


def genome(folder: Path) -> None:
    """30 million bases, and reads of them with errors."""
    r = random.Random(5)
    text = "".join(r.choices("ACGT", k=30_000_000))
    (folder / "ref.fa").write_text(
        ">chr1\n" + "\n".join(text[i : i + 80] for i in range(0, len(text), 80)) + "\n"
    )
    for name, number, length, errors in (("reads", 60_000, 150, 2), ("long", 1500, 8000, 500)):
        with (folder / f"{name}.fq").open("w") as file:
            for n in range(number):
                at = r.randrange(len(text) - length)
                bases = list(text[at : at + length])
                for _ in range(errors):
                    bases[r.randrange(length)] = r.choice("ACGT")
                file.write(f"@r{n}\n{''.join(bases)}\n+\n{'I' * length}\n")


def run(folder: Path, *words: str) -> dict[str, object]:
    """What a command writes with --json."""
    file = folder / "document.json"
    file.unlink(missing_ok=True)
    command, *rest = words
    ran = subprocess.run(
        [str(TREE / "build/tlbcost"), command, "--quiet", "--json", str(file), *rest],
        cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, check=False,
    )  # fmt: skip
    if not file.exists():
        print(ran.stderr[-500:], file=sys.stderr)
        return {}
    found: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
    return found


def mean_of(pairs: list[dict[str, dict[str, int]]], *keys: str) -> tuple[float, float]:
    """What the runs on huge pages saved, and its standard error, in points."""
    saved = [
        100 * sum(pair["base"][key] - pair["huge"][key] for key in keys)
        / (pair["base"]["user_ns"] + pair["base"]["system_ns"]) for pair in pairs
    ]  # fmt: skip
    return fmean(saved), stdev(saved) / math.sqrt(len(saved))


def row_of(folder: Path, name: str, command: str) -> Row:
    """Estimate it, and run the pairs."""
    document = run(folder, "estimate", "--", *shlex.split(command))
    measured = document.get("measured") or {}
    assert isinstance(measured, dict)
    way = measured.get("method") or "thp"
    truth = run(
        folder, "trial", "--no-estimate", "--pairs", PAIRS, "--with",
        "thp" if way == "as it runs" else way, "--", *shlex.split(command),
    )  # fmt: skip
    trials = truth.get("trials")
    if not isinstance(trials, list):
        return Row(name, document, way, None, None)
    pairs = trials[0]["pairs"]
    return Row(
        name, document, way, mean_of(pairs, "user_ns"), mean_of(pairs, "user_ns", "system_ns")
    )


def line_of(row: Row) -> str:
    """A line of the table."""

    def said(share: object) -> str:
        if not isinstance(share, dict):
            return "NA"
        value, low, high = (100 * float(share[end]) for end in ("value", "low", "high"))
        return f"{value:.1f} ({low:.1f} to {high:.1f})"

    def true(part: tuple[float, float] | None) -> str:
        return "NA" if part is None else f"{part[0]:.1f} ± {part[1]:.1f}"

    measured, verdict = row.document.get("measured"), row.document.get("verdict")
    parts = measured if isinstance(measured, dict) else {}
    word = verdict["code"].replace("_", " ") if isinstance(verdict, dict) else "NA"
    return (
        f"| {row.name} | {row.way if parts else 'not measured'} | {parts.get('rounds', 'NA')} | "
        f"{said(parts.get('user_fraction'))} | {true(row.user)} | "
        f"{said(parts.get('total_fraction'))} | {true(row.total)} | {word} |"
    )


def main() -> int:
    """Try all, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="these programs, separated by commas; nothing is written")
    parser.add_argument("--load", help="a command that runs next to it all; nothing is written")
    arguments = parser.parse_args()
    names = arguments.only.split(",") if arguments.only else list(COMMANDS)
    lines = [
        "| program | by | pairs | user time | true | in all | true | verdict |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    load = subprocess.Popen(shlex.split(arguments.load)) if arguments.load else None
    try:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            genome(folder)
            for name, text in FILES.items():
                (folder / name).write_text(text, encoding="utf-8")
            for name in names:
                if shutil.which(name) is None:
                    print(f"{name} is not installed", file=sys.stderr)
                    continue
                if name in PREPARE:
                    words = shlex.split(PREPARE[name])
                    subprocess.run(words, cwd=folder, check=True, stderr=subprocess.DEVNULL)
                lines.append(line_of(row_of(folder, name, COMMANDS[name])))
                print(lines[-1], file=sys.stderr, flush=True)
    finally:
        if load is not None:
            load.terminate()
    if arguments.only is None and load is None:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN, 1)
        section = f"{BEGIN}{chr(10).join(lines)}\n{END}"
        PAGE.write_text(before + section + rest.split(END, 1)[1], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
