# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of `tlbcost estimate`, and which of them exclude each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.copies.run import Also
from tlbcost.run.outcome import names_of

AskedBackend = Literal["auto", "pmu", "sim", "both"]
AskedEngine = Literal["auto", "copies", "valgrind"]

_FROM = "tlbcost estimate --from FILE --cpu MODEL"


@dataclass(frozen=True, slots=True)
class EstimateRequest:
    """The program to run, or the files of counts taken elsewhere (`imported`), and how.

    `calibration` None: this machine's costs. `nodes` None: NUMA nodes as the machine has them.
    `engine`: what simulates, if anything does; `overhead`: the share of CPU time that copies may
    cost, or as many as `copies`; both None: the usual share. `pid`: a process that already runs,
    followed for `seconds` (None: as usual), with its `children`. `runs` None: as many as the time
    of one allows. `measured`: on huge pages, too, besides the model; `time_budget`: seconds for
    pairs of runs (None: as usual); `system`: root may set THP to "always" for them; `also`: with
    these on huge pages. `cpu`, `object_name` and `walk_cycles` (what one page walk costs) are about
    files. `region`: of a phase of the program, START:END. `sites`: what allocated its memory, too.
    """

    argv: tuple[str, ...] = ()
    imported: tuple[Path, ...] = ()
    backend: AskedBackend = "auto"
    engine: AskedEngine = "auto"
    calibration: Path | None = None
    recalibrate: bool = False
    runs: int | None = None
    prepare: str | None = None
    ignore_failure: bool = False
    nodes: int | None = None
    cpu: str | None = None
    object_name: str | None = None
    walk_cycles: float | None = None
    overhead: float | None = None
    copies: int | None = None
    most_pause: float | None = None
    canary: bool = False
    pid: int | None = None
    seconds: float | None = None
    children: bool = False
    measured: bool = False
    time_budget: float | None = None
    system: bool = True
    also: tuple[Also, ...] = ()
    region: str | None = None
    sites: bool = False

    @property
    def unsimulated(self) -> str | None:
        """The option that excludes a simulation; None: none does."""
        given = self._given()
        return next((each for each in ("--from", "--backend pmu") if given[each]), None)

    @property
    def may_stand_alone(self) -> bool:
        """Pairs of runs are an answer where nothing else is."""
        given = self.pid is not None or self.region is not None or self.engine != "auto"
        return self.measured and not given

    def check(self) -> None:
        """Raise TlbcostError with exit code 2 if options exclude each other, or say nothing."""
        given = self._given()
        for options, others, why, hint in _RULES:
            option = next((each for each in options if given[each]), None)
            other = next((each for each in others if given[each]), None)
            if option is not None and other is not None:
                program = self.argv[0] if self.argv else ""
                raise TlbcostError(
                    why.format(option, other, program), hint.format(option, other), USAGE
                )
        for options, needed, why, hint in _NEEDS:
            option = next((each for each in options if given[each]), None)
            if option is not None and not given[needed]:
                raise TlbcostError(why.format(option), hint, USAGE)
        if not any(given[each] for each in (_COMMAND, "--from", "--pid")):
            raise TlbcostError("no program to estimate", "tlbcost estimate -- ./app ARG...", USAGE)
        if self.region is not None:
            names_of(self.region)

    def _given(self) -> dict[str, bool]:
        backends = {f"--backend {name}": self.backend == name for name in ("pmu", "sim", "both")}
        engines = {f"--engine {name}": self.engine == name for name in ("copies", "valgrind")}
        with_values = (
            "pid", "region", "runs", "prepare", "nodes", "cpu", "walk_cycles", "overhead",
            "copies", "most_pause", "seconds", "time_budget",
        )  # fmt: skip
        values = {f"--{name.replace('_', '-')}": getattr(self, name) for name in with_values}
        return {
            _COMMAND: bool(self.argv),
            "--from": bool(self.imported),
            **backends,
            **engines,
            **{option: value is not None for option, value in values.items()},
            "--recalibrate": self.recalibrate,
            "--object": self.object_name is not None,
            "--canary": self.canary,
            "--children": self.children,
            "--no-system": not self.system,
            "--text": "text" in self.also,
            "--shared-memory": "shared memory" in self.also,
            "--sites": self.sites,
        }


_COMMAND = "COMMAND"
_EITHER = "leave {0} out, or {1}"
# Options, what excludes them, why, and the hint; {0} and {1} are one of each, {2} the program.
_RULES: tuple[tuple[tuple[str, ...], tuple[str, ...], str, str], ...] = (
    (
        ("--from",), ("--pid",),
        "--from estimates what was counted before, --pid what runs now", "leave one of them out",
    ),
    (
        ("--from",), (_COMMAND,),
        "--from estimates what was counted before; {2} would not be run",
        "leave the command out, or --from",
    ),
    (
        ("--from",), ("--backend sim", "--recalibrate"),
        "--from excludes --backend sim and --recalibrate: nothing is run here", _FROM,
    ),
    (
        ("--time-budget", "--no-system", "--text", "--shared-memory"), ("--from",),
        "{0} is about measuring, and {1} measures nothing", _EITHER,
    ),
    (
        ("--text", "--shared-memory"), ("--region",),
        "{0} is about measuring, and {1} measures anonymous memory alone", _EITHER,
    ),
    (
        ("--engine copies",), ("--from", "--backend pmu"),
        "{0} simulates, which {1} excludes", "leave --engine out, or {1}",
    ),
    (
        ("--overhead", "--copies"), ("--engine valgrind", "--from", "--backend pmu"),
        "{0} applies to copies of the program, which {1} excludes", _EITHER,
    ),
    (
        ("--overhead",), ("--copies",),
        "--overhead and --copies both limit the copies", "leave one of them out",
    ),
    (
        ("--sites",), ("--from", "--pid", "--region", "--engine valgrind", "--backend pmu"),
        "{0} records what a program allocates from its start, followed in copies: not with {1}",
        _EITHER,
    ),
    (
        ("--region",),
        (
            "--from", "--pid", "--backend pmu", "--backend both", "--engine copies", "--copies",
            "--overhead", "--nodes",
        ),
        "--region and --from-function need a run in Valgrind, which {1} excludes",
        "leave {1} out",
    ),
    (
        ("--from",), ("--nodes",),
        "--from excludes --nodes: placement is simulated, and nothing is run here",
        "tlbcost numa -- ./app ARG...",
    ),
    (
        ("--pid",), (_COMMAND,),
        "--pid follows a process that runs; {2} would not be run",
        "leave the command out, or --pid",
    ),
    (
        ("--pid",), ("--engine valgrind", "--backend pmu", "--backend both"),
        "--pid follows copies of the process: neither Valgrind nor counters can",
        "leave --engine and --backend out",
    ),
    (
        ("--runs", "--prepare", "--nodes"), ("--pid",),
        "{0} is for a program that tlbcost starts; --pid follows a running one", _EITHER,
    ),
)  # fmt: skip
# Options, the one that they need, why, and the hint.
_NEEDS: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (
        ("--seconds", "--children", "--most-pause", "--canary"), "--pid",
        "{0} needs --pid: a program that is run is followed to its end, with its children",
        "tlbcost estimate --pid PID",
    ),
    (("--cpu", "--object", "--walk-cycles"), "--from", "{0} needs --from", _FROM),
)  # fmt: skip
