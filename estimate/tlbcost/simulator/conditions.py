# SPDX-License-Identifier: GPL-2.0-or-later
"""What were the conditions on the machine during the run? Other tenants come and go, and frames are
reused.

The half-life of lines in a shared last-level cache changes within seconds, five- to tenfold on one
host; so it is measured around each run, not only in the calibration.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tlbcost.calibration.calibrator import run_calibrator
from tlbcost.calibration.records import Calibration
from tlbcost.common.errors import TlbcostError
from tlbcost.simulator.core import Core, as_it_ran

# Measurements each time, which take some 50 ms; the maximum that the core accepts.
_SWEEPS, _LIMIT_S = 4, 1.0
_MOST = 16


@dataclass(slots=True)
class Conditions:
    """Measures the machine between a program's runs, for the core on which it will be timed.

    `own`: whether the calibration is of this machine; otherwise its figure is kept.
    """

    core: Core | None
    calibration: Calibration
    own: bool
    l3_half_lives_ns: list[float] = field(default_factory=list, init=False)
    _failure: str | None = field(default=None, init=False)

    @property
    def frames_matter(self) -> bool:
        """Whether the program's physical frames are looked up."""
        return self.core is not None and "isolated-pages" in dict(self.core.fields)

    @property
    def notes(self) -> tuple[str, ...]:
        """Figures that had to come from elsewhere."""
        if self._failure is None or self.l3_half_lives_ns:
            return ()
        return (
            "the half-life of lines in the last-level cache is the calibration's; it could "
            f"not be measured alongside the runs ({self._failure})",
        )

    def measure(self) -> None:
        """What is the lines' half-life now? Takes some 60 ms, or nothing if it is not modelled."""
        if self.core is None or not self.own or "l3-half-life-cycles" not in dict(self.core.fields):
            return
        page = str(self.calibration.machine.base_page_bytes)
        try:
            samples = run_calibrator(
                ["--measure", "residency", "--sweeps", str(_SWEEPS), "--page-size", page],
                _LIMIT_S,
                None,
            )
        except TlbcostError as error:
            self._failure = str(error)
            return
        rows = [(row["probe"], row["ns"]) for row in samples.records()]
        found = [float(ns) for probe, ns in rows if probe == "residency" and ns is not None]
        if not found:
            self._failure = "the calibrator had no time or memory for it"
        self.l3_half_lives_ns += found

    def core_then(self, isolated: int | None) -> Core | None:
        """The core, as measured then; `isolated`: the program's pages with isolated frames."""
        if self.core is None:
            return None
        # The same number for each time.
        step = max(1, -(-len(self.l3_half_lives_ns) // _MOST))
        return as_it_ran(self.core, self.calibration, self.l3_half_lives_ns[::step], isolated)
