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
    these on huge pages. `cpu`,
    `object_name` and `walk_cycles` (what one page walk costs) are about files. `region`: of a phase
    of the program, START:END.
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
    pid: int | None = None
    seconds: float | None = None
    children: bool = False
    measured: bool = False
    time_budget: float | None = None
    system: bool = True
    also: tuple[Also, ...] = ()
    region: str | None = None

    @property
    def unsimulated(self) -> str | None:
        """The option that excludes a simulation; None: none does."""
        if self.imported:
            return "--from"
        return "--backend pmu" if self.backend == "pmu" else None

    @property
    def may_stand_alone(self) -> bool:
        """Pairs of runs are an answer where nothing else is."""
        given = self.pid is not None or self.region is not None or self.engine != "auto"
        return self.measured and not given

    def check(self) -> None:
        """Raise TlbcostError with exit code 2 if options exclude each other, or say nothing."""
        if self.imported:
            self._check_imported()
        self._check_measuring()
        self._check_copies()
        self._check_region()
        if self.imported:
            if self.nodes is not None:
                raise TlbcostError(
                    "--from excludes --nodes: placement is simulated, and nothing is run here",
                    "tlbcost numa -- ./app ARG...",
                    USAGE,
                )
            return
        of_files = {
            "--cpu": self.cpu, "--object": self.object_name, "--walk-cycles": self.walk_cycles
        }  # fmt: skip
        for option, value in of_files.items():
            if value is not None:
                raise TlbcostError(f"{option} needs --from", _FROM, USAGE)
        if self.pid is not None:
            self._check_pid()
        elif not self.argv:
            raise TlbcostError("no program to estimate", "tlbcost estimate -- ./app ARG...", USAGE)

    def _check_measuring(self) -> None:
        of_measuring = {
            "--time-budget": self.time_budget is not None,
            "--no-system": not self.system,
            "--text": "text" in self.also,
            "--shared-memory": "shared memory" in self.also,
        }
        for option, given in of_measuring.items():
            without = "--from" if self.imported else "--region" if self.region else None
            also = option in ("--text", "--shared-memory")
            if given and (without == "--from" or (without and also)):
                raise TlbcostError(
                    f"{option} is about measuring, and {without} measures "
                    + ("nothing" if without == "--from" else "anonymous memory alone"),
                    f"leave {option} out, or {without}",
                    USAGE,
                )

    def _check_copies(self) -> None:
        if self.engine == "copies" and self.unsimulated is not None:
            raise TlbcostError(
                f"--engine copies simulates, which {self.unsimulated} excludes",
                f"leave --engine out, or {self.unsimulated}",
                USAGE,
            )
        of_copies = {"--overhead": self.overhead is not None, "--copies": self.copies is not None}
        without = "--engine valgrind" if self.engine == "valgrind" else self.unsimulated
        for option, given in of_copies.items():
            if given and without is not None:
                raise TlbcostError(
                    f"{option} applies to copies of the program, which {without} excludes",
                    f"leave {option} out, or {without}",
                    USAGE,
                )
        if self.overhead is not None and self.copies is not None:
            raise TlbcostError(
                "--overhead and --copies both limit the copies", "leave one of them out", USAGE
            )
        of_processes = {
            "--seconds": self.seconds is not None,
            "--children": self.children,
            "--most-pause": self.most_pause is not None,
        }
        for option, given in of_processes.items():
            if given and self.pid is None:
                raise TlbcostError(
                    f"{option} needs --pid: a program that is run is followed to its end, "
                    "with its children",
                    "tlbcost estimate --pid PID",
                    USAGE,
                )

    def _check_region(self) -> None:
        """A region is of a program that is run in Valgrind."""
        if self.region is None:
            return
        excluded = {
            "--from": bool(self.imported),
            "--pid": self.pid is not None,
            f"--backend {self.backend}": self.backend not in ("auto", "sim"),
            "--engine copies": self.engine == "copies",
            "--copies": self.copies is not None,
            "--overhead": self.overhead is not None,
            "--nodes": self.nodes is not None,
        }
        for option, given in excluded.items():
            if given:
                raise TlbcostError(
                    f"--region and --from-function need a run in Valgrind, which {option} excludes",
                    f"leave {option} out",
                    USAGE,
                )
        names_of(self.region)

    def _check_pid(self) -> None:
        if self.argv:
            raise TlbcostError(
                f"--pid follows a process that runs; {self.argv[0]} would not be run",
                "leave the command out, or --pid",
                USAGE,
            )
        if self.engine == "valgrind" or self.backend not in ("auto", "sim"):
            raise TlbcostError(
                "--pid follows copies of the process: neither Valgrind nor counters can",
                "leave --engine and --backend out",
                USAGE,
            )
        of_runs = {
            "--runs": self.runs is not None,
            "--prepare": self.prepare is not None,
            "--nodes": self.nodes is not None,
        }
        for option, given in of_runs.items():
            if given:
                raise TlbcostError(
                    f"{option} is for a program that tlbcost starts; --pid follows a running one",
                    f"leave {option} out, or --pid",
                    USAGE,
                )

    def _check_imported(self) -> None:
        if self.pid is not None:
            raise TlbcostError(
                "--from estimates what was counted before, --pid what runs now",
                "leave one of them out",
                USAGE,
            )
        if self.argv:
            raise TlbcostError(
                f"--from estimates what was counted before; {self.argv[0]} would not be run",
                "leave the command out, or --from",
                USAGE,
            )
        if self.backend == "sim" or self.recalibrate:
            raise TlbcostError(
                "--from excludes --backend sim and --recalibrate: nothing is run here", _FROM, USAGE
            )
