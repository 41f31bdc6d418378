# SPDX-License-Identifier: GPL-2.0-or-later
"""How is one program predicted, and then run on base and on huge pages by several methods?"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.paths import version
from tlbcost.measured import catalog
from tlbcost.measured.coverage import heeds_tunables
from tlbcost.measured.method import Method, drop_huge_page_requests
from tlbcost.measured.pairs import Witnessed
from tlbcost.model.gain import PredictedGain
from tlbcost.run.launch import Launcher, launcher_of
from tlbcost.run.program import resolve
from tlbcost.settings.change import system_settings
from tlbcost.settings.journal import undisturbed
from tlbcost.symbols.region import region_of
from tlbcost.system.machine import current_machine, huge_page_bytes
from tlbcost.trial.comparison import ProgramTrials, Trial
from tlbcost.trial.runs import first_run, run_trial

if TYPE_CHECKING:
    from tlbcost.answer.request import AskedEngine

# For another tlbcost to put the settings back.
_WAIT_S = 60.0

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TrialRequest:
    """A program to run `pairs` times on base and on huge pages, by each of these methods.

    `within`: more pairs until the gain is known to this share of the run time. `methods`: names for
    --with; none: "auto". `prepare`: a shell command before each run.
    `engine`: what simulates for the estimate, if anything does. `turns`: the two runs of a pair at
    the same time, in turns, if the program allows that. `region`: times are of this phase of it.
    """

    argv: tuple[str, ...]
    methods: tuple[str, ...] = ()
    pairs: int = 5
    within: float | None = None
    prepare: str | None = None
    estimated: bool = True
    engine: AskedEngine = "auto"
    turns: bool = True
    region: str | None = None


def run_trials(request: TrialRequest, announce: Announce) -> ProgramTrials:
    """Predict, and run in pairs; `announce` is called with what happens.

    Our own environment is left without what asks for huge pages. Raises TlbcostError: 4 if a
    method cannot be prepared here, the program's own exit code if it failed.
    """
    # Whatever can be refused is refused before anything takes time.
    asked = [None if name == "auto" else catalog.named(name) for name in request.methods]
    for method in asked:
        if method is not None:
            _check_watchers(request, method)
            method.check()
    path = resolve(request.argv[0])
    region = None if request.region is None else region_of(request.region, path)
    # The estimate, too, is of the program on base pages.
    notes = drop_huge_page_requests(announce)
    with launcher_of(request.prepare) as launcher:
        launcher.region = region
        estimate, no_estimate = _estimate(request, launcher, announce)
        first = first_run(launcher, request.argv, path)
        trials: list[Trial] = []
        try:
            for method in asked or [None]:
                chosen = method or _auto(first, announce)
                _check_watchers(request, chosen)
                trials.append(_trial(launcher, request, path, chosen, first, announce))
        except TimeLimitPassed:
            if not trials:
                raise
            announce(f"the time limit passed: {len(trials)} of {len(asked)} methods were run")
    return ProgramTrials(
        version=version(),
        date=now(),
        machine=current_machine(),
        argv=request.argv,
        trials=tuple(trials),
        estimate=estimate,
        huge_page_bytes=huge_page_bytes(),
        no_estimate=no_estimate,
        notes=notes,
        region=request.region,
    )


def _check_watchers(request: TrialRequest, method: Method) -> None:
    """No process can be traced twice."""
    if request.region is not None and method.name == "run-thp":
        raise TlbcostError(
            "a region cannot be timed with run-thp, which traces the program itself",
            "--with glibc-thp, or, as root, --with thp",
            CANNOT_MEASURE,
        )


def _estimate(
    request: TrialRequest, launcher: Launcher, announce: Announce
) -> tuple[PredictedGain | None, str | None]:
    """What `tlbcost estimate` says of the program, or why it says nothing."""
    if not request.estimated:
        return None, "not asked for"
    # Not at the top: it needs every model.
    from tlbcost.answer.estimate import estimate
    from tlbcost.answer.request import EstimateRequest

    launcher.transparent = False
    try:
        asked = EstimateRequest(
            argv=request.argv, prepare=request.prepare, engine=request.engine, region=request.region
        )
        return estimate(asked, launcher).gain, None
    except TlbcostError as error:
        if error.exit_code not in (CANNOT_MEASURE, TOOL_FAILED):
            raise
        announce(f"there will be no estimate to compare the trial with: {error}")
        return None, str(error)


def _auto(first: Witnessed, announce: Announce) -> Method:
    heeds = first.backing is None or heeds_tunables(first.backing)
    method, why = catalog.auto(first.sized_run, heeds_tunables=heeds)
    announce(f"trying {method.name}: {why}")
    return method


def _trial(
    launcher: Launcher,
    request: TrialRequest,
    path: Path,
    method: Method,
    first: Witnessed,
    announce: Announce,
) -> Trial:
    """One method's trial; the system's settings are put back after it."""
    with contextlib.ExitStack() as stack:
        settings = None
        if method.changes_settings and os.geteuid() == 0:
            settings = stack.enter_context(system_settings(announce))
        else:
            # What another tlbcost changes during the runs, such as THP's mode, would be measured.
            stack.enter_context(undisturbed(announce, _WAIT_S))
        return run_trial(
            launcher, request.argv, path, method, request.pairs, settings,
            within=request.within, first=first, turns=request.turns,
        )  # fmt: skip
