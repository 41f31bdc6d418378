# SPDX-License-Identifier: GPL-2.0-or-later
"""What is an estimate asked for? The options of `tlbcost estimate`, which exclude each other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tlbcost.common.errors import USAGE, TlbcostError

AskedBackend = Literal["auto", "pmu", "sim", "both"]
AskedEngine = Literal["auto", "copies", "valgrind"]
AskedModel = Literal["auto", "overlap", "simple"]

_FROM = "tlbcost estimate --from FILE --cpu MODEL"


@dataclass(frozen=True, slots=True)
class EstimateRequest:
    """The program to run, or the files of counts taken elsewhere (`imported`), and how.

    `calibration` None: this machine's costs. `nodes` None: NUMA nodes as the machine has them.
    `engine`: what simulates, if anything does; `overhead`: the share of CPU time that copies may
    cost, or as many as `copies`. `pid`: a process that already runs, followed for `seconds`, with
    its `children`. `cpu`, `object_name` and `walk_cycles` (what one page walk costs) are about
    files.
    """

    argv: tuple[str, ...] = ()
    imported: tuple[Path, ...] = ()
    backend: AskedBackend = "auto"
    engine: AskedEngine = "auto"
    model: AskedModel = "auto"
    calibration: Path | None = None
    recalibrate: bool = False
    runs: int = 3
    prepare: str | None = None
    ignore_failure: bool = False
    nodes: int | None = None
    cpu: str | None = None
    object_name: str | None = None
    walk_cycles: float | None = None
    overhead: float = 0.05
    copies: int | None = None
    pid: int | None = None
    seconds: float = 30.0
    children: bool = False

    @property
    def unsimulated(self) -> str | None:
        """The option that excludes a simulation; None: none does."""
        if self.imported:
            return "--from"
        return "--backend pmu" if self.backend == "pmu" else None

    def check(self) -> None:
        """Raise TlbcostError with exit code 2 if options exclude each other, or say nothing."""
        if self.imported:
            self._check_imported()
        if self.model != "auto" and self.unsimulated is not None:
            raise TlbcostError(
                f"--model {self.model} is of a simulation, which {self.unsimulated} excludes",
                f"leave --model out, or {self.unsimulated}",
                USAGE,
            )
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
                raise TlbcostError(f"{option} belongs to --from", _FROM, USAGE)
        if self.pid is not None:
            self._check_pid()
        elif not self.argv:
            raise TlbcostError("no program to estimate", "tlbcost estimate -- ./app ARG...", USAGE)

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
