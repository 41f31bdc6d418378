# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimates of packaged programs, each followed at once by four pairs of runs with its remedy.

Keeps data/samples/packaged.tsv, and writes the tables of doc/accuracy.md from it. `--load COMMAND`
runs next to it all, such as 'stress-ng --cpu 1 --vm 1'. What is not installed is left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, median, stdev

from tlbcost.processors.events import pmu_of
from tlbcost.system.machine import current_machine

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "accuracy.md"
RECORDS = TREE / "data" / "samples" / "packaged.tsv"
PAIRS = "4"
MIB = 1 << 20

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
NODE = """const m=new Map(); let x=1; for(let i=0;i<4000000;i++){
x=(x*1103515245+12345)&0x7fffffff; m.set(x%4000000,{v:x}); } let s=0;
for(let i=0;i<60000000;i++){ x=(x*1103515245+12345)&0x7fffffff;
const e=m.get(x%4000000); if(e) s+=e.v&7; } console.log(s);"""
PERL = """my %h; my $x=1; for(1..1500000){$x=($x*16807)%2147483647; $h{$x%1000000}=$_}
my $s=0; for(1..3000000){$x=($x*16807)%2147483647; $s+=$h{$x%1000000}//0} print "$s\n";"""
PHP = """<?php ini_set('memory_limit','2G'); $h=[];$x=1;
for($i=0;$i<4000000;$i++){$x=($x*16807)%2147483647;$h[$x]=$i;}$k=array_keys($h);$s=0;
for($i=0;$i<12000000;$i++){$x=($x*16807)%2147483647;$s+=$h[$k[$x%count($k)]];}echo $s;"""
LISP = """(let ((h (make-hash-table :size 3000000)) (x 1) (s 0)) (declare (type fixnum x s))
(dotimes (i 3000000) (setf x (mod (* x 16807) 2147483647)) (setf (gethash x h) i)) (setf x 1)
(dotimes (j 6) (dotimes (i 3000000) (setf x (mod (* x 16807) 2147483647))
(incf s (the fixnum (gethash x h 0))))) (print s))"""
SCHEME = """(let ((v (make-vector 4000000 0)) (h (make-hash-table 2000000)))
(let fill ((i 0) (x 1)) (if (< i 2000000) (let ((y (modulo (* x 16807) 2147483647)))
(vector-set! v (* 2 i) y) (hashq-set! h y i) (fill (+ i 1) y))))
(let look ((i 0) (x 1) (s 0)) (if (< i 2000000) (let ((y (modulo (* x 16807) 2147483647)))
(look (+ i 1) y (+ s (hashq-ref h y 0)))) (display s))))"""
OCAML = """let () = let h = Hashtbl.create 1000000 in let x = ref 1 in
for i = 1 to 2000000 do x := !x * 16807 mod 2147483647; Hashtbl.replace h !x i done;
x := 1; let s = ref 0 in for _ = 1 to 4 do x := 1; for _ = 1 to 2000000 do
x := !x * 16807 mod 2147483647; s := !s + Hashtbl.find h !x done done; print_int !s"""
R = """set.seed(1); n <- 4e6; x <- runif(n); i <- sample(n); s <- 0
for (k in 1:12) s <- s + sum(x[i]); o <- order(x); cat(s, sum(x[o] * i))"""
FRAMES = {
    "duckdb": """import duckdb
c=duckdb.connect(); c.execute("set threads=1")
c.execute("create table a as select (i*7919)%3000017 k, i v from range(6000000) t(i)")
print(c.execute("select sum(x.v+y.v) from a x join a y on x.k=(y.v*31)%3000017").fetchone())""",
    "faiss": """import faiss, numpy as np
faiss.omp_set_num_threads(1); r=np.random.default_rng(1); X=r.random((150000,64),dtype="f4")
i=faiss.IndexHNSWFlat(64,12); i.hnsw.efConstruction=20; i.add(X[:60000])
print(i.search(X[100000:110000],5)[1].sum())""",
    "lightgbm": """import numpy as np, lightgbm as lgb
r=np.random.default_rng(1); X=r.normal(size=(300000,40)).astype("f4"); y=X[:,0]*X[:,1]+X[:,2]
lgb.train({"num_threads":1,"verbose":-1,"num_leaves":127},lgb.Dataset(X,y),20)""",
    "networkx": """import networkx as nx
g=nx.gnm_random_graph(120000,500000,seed=1)
print(len(nx.single_source_shortest_path_length(g,0)), nx.number_connected_components(g))""",
    "numpy": """import numpy as np
r=np.random.default_rng(1); a=np.arange(1<<26,dtype=np.int64)
i=r.integers(0,1<<26,size=1<<25); print(sum(int(a[i].sum()) for _ in range(3)))""",
    "polars": """import os; os.environ["POLARS_MAX_THREADS"]="1"
import polars as pl; n=8000000; i=pl.arange(0,n,eager=True)
d=pl.DataFrame({"i":i}).with_columns(((pl.col("i")*7919)%2000003).alias("k"))
print(d.group_by("k").agg(pl.col("i").sum()).height, d.join(d.unique("k"),on="k").height)""",
    "sklearn": """import os; os.environ["OMP_NUM_THREADS"]="1"
import numpy as np; from sklearn.ensemble import RandomForestClassifier
r=np.random.default_rng(1); X=r.normal(size=(60000,20)).astype("f4"); y=(X[:,0]*X[:,1]>0)
print(RandomForestClassifier(6,random_state=1,n_jobs=1).fit(X,y).predict(X).sum())""",
}
STRUCT = """struct S%d{int a;std::string b;bool operator<(const S%d&o)const{return a<o.a;}};
int f%d(std::vector<S%d>&v){std::map<S%d,int> m;std::sort(v.begin(),v.end());
for(auto&e:v)m[e]++;return m.size();}
"""
# What is written, and what prepares it.
FILES = {
    "t.lua": LUA % (6_000_000, 250_000_000, 6_000_000), "strings.lua": STRINGS, "Tree.java": JAVA,
    "d.py": PYTHON, "main.go": GO, "q.sql": SQL, "h.rb": RUBY, "n.js": NODE, "h.pl": PERL,
    "h.php": PHP, "l.lisp": LISP, "h.scm": SCHEME, "h.ml": OCAML, "g.R": R,
    "big.cc": "#include <algorithm>\n#include <map>\n#include <regex>\n#include <string>\n"
    + "".join(STRUCT.replace("%d", str(n)) for n in range(10)),
    **{f"with_{name}.py": text for name, text in FRAMES.items()},
}  # fmt: skip
PREPARE = {
    "bwa": "bwa index ref.fa", "java": "javac Tree.java", "go-map": "go build -o gomap main.go",
    "blastn": "makeblastdb -in ref.fa -dbtype nucl -out refdb",
    "ocaml": "ocamlopt h.ml -o hml",
}  # fmt: skip
COMMANDS = {
    "luajit": "luajit t.lua",
    "lua": "lua5.4 strings.lua",
    "minimap2": "minimap2 -t1 -x map-ont ref.fa long.fq",
    "stockfish": "stockfish bench 512 1 15",
    "sqlite": "sh -c 'sqlite3 :memory: <q.sql'",
    "bwa": "sh -c 'head -120000 reads.fq | bwa mem -t1 ref.fa -'",
    "java": "java -XX:+UseSerialGC -Xmx1g Tree",
    "java-parallel": "java -XX:+UseParallelGC -Xmx1g Tree",
    "python": "python3 d.py",
    "go-map": "./gomap",
    "ruby": "ruby h.rb",
    "pypy": "pypy3 d.py",
    "sort": "sort --parallel=1 -S 2G ref.fa",
    "node": "node n.js",
    "perl": "perl h.pl",
    "php": "php h.php",
    "sbcl": "sbcl --dynamic-space-size 2048 --script l.lisp",
    "guile": "guile --no-auto-compile h.scm",
    "ocaml": "./hml",
    "R": "Rscript g.R",
    "g++": "g++ -O2 -c big.cc -o /dev/null",
    "xz": "sh -c 'head -c 6000000 ref.fa | xz -9 -c >/dev/null'",
    "zstd": "zstd -q -12 --long=27 -T1 -c ref.fa -o /dev/null -f",
    "db_bench": "db_bench --benchmarks=fillrandom,readrandom --num=400000 --reads=400000 "
    "--db=rdb --disable_wal=1",
    "blastn": "blastn -num_threads 1 -db refdb -query q.fa -outfmt 6 -out /dev/null",
    **{name: f"PYTHON with_{name}.py" for name in FRAMES},
}


# What a command needs, where its first word does not say it.
NEEDS = {"sqlite": "sqlite3", "bwa": "bwa", "xz": "xz", "go-map": "go", "ocaml": "ocamlopt"}

# A record of data/samples/packaged.tsv: shares are points of the CPU time, the start cost is in s,
# the growth of the peak memory in MiB.
# What was estimated has a value and an interval, the mean of four pairs a standard error.
PARTS = ("user", "total", "start")
COLUMNS = (
    "cpu", "load", "date", "program", "method", "pairs", "verdict",
    *(f"{part}{end}" for part in PARTS for end in ("", "_low", "_high", "_true", "_error")),
    "growth", "growth_true",
)  # fmt: skip
Record = dict[str, str]


def genome(folder: Path) -> None:
    """30 million bases, and reads of them with errors."""
    r = random.Random(5)
    text = "".join(r.choices("ACGT", k=30_000_000))
    (folder / "ref.fa").write_text(
        ">chr1\n" + "\n".join(text[i : i + 80] for i in range(0, len(text), 80)) + "\n"
    )
    none = "".join(r.choices("ACGT", k=90_000))
    queries = "".join(f">r{n}\n{text[50_000 * n :][:150]}\n" for n in range(400))
    (folder / "q.fa").write_text(f"{queries}>none\n{none}\n")
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


def record_of(folder: Path, name: str, command: str) -> Record:
    """Estimate it, and run the pairs."""
    document = run(folder, "estimate", "--", *shlex.split(command))
    found = document.get("measured")
    measured = found if isinstance(found, dict) else {}
    way = measured.get("method") or "thp"
    truth = run(
        folder, "trial", "--no-estimate", "--pairs", PAIRS, "--with",
        "thp" if way == "as it runs" else way, "--", *shlex.split(command),
    )  # fmt: skip
    verdict = document.get("verdict")
    record = dict.fromkeys(COLUMNS, "NA") | {
        "program": name, "method": way if measured else "not measured",
        "pairs": str(measured.get("rounds", "NA")),
        "verdict": verdict["code"].replace("_", " ") if isinstance(verdict, dict) else "NA",
    }  # fmt: skip
    for part, key, unit in zip(
        PARTS, ("user_fraction", "total_fraction", "start_cost_s"), (100, 100, 1), strict=True
    ):
        said = measured.get(key)
        if isinstance(said, dict):
            for end, suffix in (("value", ""), ("low", "_low"), ("high", "_high")):
                record[part + suffix] = f"{unit * said[end]:.3f}"
    if isinstance(measured.get("growth_bytes"), dict):
        record["growth"] = f"{measured['growth_bytes']['value'] / MIB:.1f}"
    trials = truth.get("trials")
    if isinstance(trials, list):
        pairs = trials[0]["pairs"]
        for part, values in true_of(pairs).items():
            record[f"{part}_true"] = f"{fmean(values):.3f}"
            record[f"{part}_error"] = f"{stdev(values) / math.sqrt(len(values)):.3f}"
        grown = (each["huge"]["max_rss_bytes"] - each["base"]["max_rss_bytes"] for each in pairs)
        record["growth_true"] = f"{median(grown) / MIB:.1f}"
    return record


def true_of(pairs: list[dict[str, dict[str, int]]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {part: [] for part in PARTS}
    for pair in pairs:
        base, huge = pair["base"], pair["huge"]
        cpu_ns = base["user_ns"] + base["system_ns"]
        found["user"].append(100 * (base["user_ns"] - huge["user_ns"]) / cpu_ns)
        found["total"].append(100 * (cpu_ns - huge["user_ns"] - huge["system_ns"]) / cpu_ns)
        found["start"].append((huge["system_ns"] - base["system_ns"]) / 1e9)
    return found


def number(record: Record, key: str) -> float:
    return math.nan if record[key] == "NA" else float(record[key])


def off(record: Record, part: str) -> float:
    return abs(number(record, part) - number(record, f"{part}_true"))


def holds(record: Record, part: str) -> bool:
    """Whether the interval holds what is true, within that one's own standard error."""
    low, high, true, error = (
        number(record, f"{part}{end}") for end in ("_low", "_high", "_true", "_error")
    )
    return low - error <= true <= high + error


def contradicted(record: Record) -> bool:
    """Whether a verdict is on the other side of what pairs show by two standard errors."""
    value, error = number(record, "total_true"), number(record, "total_error")
    if record["verdict"] in ("worth trying", "already huge"):
        return value + 2 * error < 0
    return value - 2 * error > 2


def summary(records: list[Record]) -> str:
    """What a table comes to, in sentences."""
    measured = [each for each in records if "NA" not in (each["user"], each["user_true"])]
    errors = [off(each, "user") for each in measured]
    beyond = [max(0.0, off(each, "user") - number(each, "user_error")) for each in measured]
    within = {
        part: f"{sum(holds(each, part) for each in known)} of {len(known)}"
        for part in PARTS
        for known in ([each for each in measured if each[part] != "NA"],)
    }
    grown = [each for each in measured if "NA" not in (each["growth"], each["growth_true"])]
    near = sum(
        abs(number(each, "growth") - (true := number(each, "growth_true")))
        <= max(4, 0.05 * abs(true))
        for each in grown
    )
    decided = [each for each in records if each["verdict"] not in ("not proven", "NA")]
    wrong = [each["program"] for each in decided if contradicted(each)]
    return (
        f"{len(measured)} of {len(records)} measured; user time off by {fmean(errors):.1f} points "
        f"on average and {max(errors):.1f} at worst, beyond the pairs' own standard error by "
        f"{fmean(beyond):.1f} and {max(beyond):.1f}; intervals that hold, within that error: user "
        f"time {within['user']}, in all {within['total']}, start cost {within['start']}. Growth "
        f"within 4 MiB or 5 %: {near} of {len(grown)}. "
        f"{len(decided)} verdicts; the pairs contradict: {', '.join(wrong) or 'none'}."
    )


def line_of(record: Record) -> str:
    """A line of the table."""

    def said(part: str, digits: int) -> str:
        value, low, high = (number(record, part + end) for end in ("", "_low", "_high"))
        if math.isnan(value):
            return "NA"
        return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"

    def true(part: str, digits: int) -> str:
        value, error = number(record, f"{part}_true"), number(record, f"{part}_error")
        return "NA" if math.isnan(value) else f"{value:.{digits}f} ± {error:.{digits}f}"

    cells = [record["program"], record["method"], record["pairs"]]
    for part, digits in (("user", 1), ("total", 1), ("start", 2)):
        cells += [said(part, digits), true(part, digits)]
    return f"| {' | '.join([*cells, record['growth'], record['growth_true'], record['verdict']])} |"


def tables(records: list[Record]) -> str:
    """One of each CPU and load."""
    lines = []
    for cpu, load in dict.fromkeys((each["cpu"], each["load"]) for each in records):
        mine = [each for each in records if (each["cpu"], each["load"]) == (cpu, load)]
        dates = sorted({each["date"] for each in mine})
        lines += [
            f"### {cpu}, {'nothing else running' if load == 'none' else f'next to {load!r}'}, "
            f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}\n",
            "| program | by | pairs | user time | true | in all | true | start cost, s | true | "
            "growth, MiB | true | verdict |",
            "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
            *(line_of(each) for each in mine),
            "",
            summary(mine),
            "",
        ]
    return "\n".join(lines)


def add_record(record: Record) -> list[Record]:
    """To the others, in place of a former one of the same program, CPU and load."""
    same = ("cpu", "load", "program")
    kept: list[Record] = []
    if RECORDS.exists():
        with RECORDS.open(encoding="utf-8") as file:
            kept = [
                dict.fromkeys(COLUMNS, "NA") | each for each in csv.DictReader(file, delimiter="\t")
            ]
    kept = [each for each in kept if any(each[key] != record[key] for key in same)]
    with RECORDS.open("w", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows([*kept, record])
    return [*kept, record]


def write_tables(records: list[Record]) -> None:
    begin, end = "<!-- packaged: begin -->\n", "<!-- packaged: end -->\n"
    before, rest = PAGE.read_text(encoding="utf-8").split(begin, 1)
    text = f"{before}{begin}\n{tables(records)}{end}{rest.split(end, 1)[1]}"
    PAGE.write_text(text, encoding="utf-8")


def main() -> int:
    """Try all, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="these programs, separated by commas")
    parser.add_argument("--load", help="a command that runs next to it all")
    arguments = parser.parse_args()
    os.environ["PATH"] += ":/usr/games"
    names = arguments.only.split(",") if arguments.only else list(COMMANDS)
    pmu = pmu_of(current_machine())
    where = {
        "cpu": "unknown" if pmu is None else pmu.name,
        "load": arguments.load or "none",
        "date": time.strftime("%Y-%m-%d"),
    }
    load = subprocess.Popen(shlex.split(arguments.load)) if arguments.load else None
    try:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            genome(folder)
            for name, text in FILES.items():
                (folder / name).write_text(text, encoding="utf-8")
            for name in names:
                command = COMMANDS[name].replace("PYTHON", sys.executable)
                if shutil.which(NEEDS.get(name) or shlex.split(command)[0]) is None:
                    print(f"{name} is not installed", file=sys.stderr)
                    continue
                if name in PREPARE:
                    words = shlex.split(PREPARE[name])
                    subprocess.run(words, cwd=folder, check=True, capture_output=True)
                record = record_of(folder, name, command) | where
                print(line_of(record), file=sys.stderr, flush=True)
                # One after the other: what is killed loses one.
                write_tables(add_record(record))
    finally:
        if load is not None:
            load.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
