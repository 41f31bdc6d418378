# SPDX-License-Identifier: GPL-2.0-or-later
"""What should be done after an estimate, and what is to be typed for it?"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace

from tlbcost.answer.record import Estimate
from tlbcost.answer.words import decider
from tlbcost.common import names
from tlbcost.remedies.advice import Advice, advise
from tlbcost.remedies.remedy import Remedy
from tlbcost.remedies.situation import Situation
from tlbcost.run.region import trial_command
from tlbcost.system.glibc import TUNABLES


def advice_for(estimate: Estimate) -> tuple[Advice, ...]:
    """What to do about each region; empty if there is nothing to do, or nothing was attributed."""
    if estimate.gain.verdict in ("not_worth_it", "already_huge"):
        return ()
    around = estimate.given.surroundings
    attribution = estimate.attribution
    if around is None or around.settings is None or attribution is None:
        return ()
    faults = tuple(
        None if costs is None else costs.fault_ns
        for costs in (estimate.base_costs, estimate.huge_costs)
    )
    situation = Situation(
        estimate.given.argv,
        around.settings,
        around.glibc,
        around.hugectl,
        estimate.given.runs,
        (faults[0], faults[1]),
        {**os.environ, TUNABLES: around.glibc_tunables or ""},
        None if estimate.gain.fault_fraction is None else estimate.gain.fault_fraction.value,
        _mapped(estimate),
        around.can_run_thp,
        estimate.given.region,
    )
    found = advise(attribution.regions, situation)
    measured = estimate.given.measured
    if measured is None or measured.method is None:
        return found
    return tuple(_measured_first(advice, measured.method) for advice in found)


def _measured_first(advice: Advice, method: str) -> Advice:
    """The remedy with which the gain was measured before the others."""

    def other(remedy: Remedy) -> bool:
        if method == "thp":
            return remedy.code != "thp-always"
        switch = method.removeprefix("env:").partition("=")[2] or method
        return remedy.code != method and not any(switch in step for step in remedy.steps)

    return replace(advice, remedies=tuple(sorted(advice.remedies, key=other)))


def _mapped(estimate: Estimate) -> dict[str, tuple[str, ...]]:
    """By the path of each executable, the names of what its processes mapped."""
    names: dict[str, dict[str, None]] = {}
    for program, mapping in estimate.given.seen:
        names.setdefault(program, {})[mapping.name] = None
    return {program: tuple(found) for program, found in names.items()}


def next_steps(estimate: Estimate) -> list[str]:
    """Lines to type: the simplest remedy of each region and its proof; those with # explain."""
    if estimate.gain.verdict in ("not_worth_it", "already_huge"):
        return ["# Nothing to configure for this program."]
    command, region = names.command_line(estimate.given.argv), estimate.given.region
    steps = []
    if decider(estimate) == "runs":
        of = f" --region {shlex.quote(region)}" if region else ""
        steps += ["# a narrower interval:", f"tlbcost estimate{of} --runs 10 -- {command}"]
    for advice in estimate.advice:
        for remedy in advice.remedies[:1]:
            steps += [f"# {remedy.words}:", *remedy.steps]
            if remedy.proof is not None:
                steps += ["# to prove it:", remedy.proof]
    if not estimate.advice:
        where = "" if estimate.given.runs else ", where the program runs"
        steps += [f"# to prove it{where}:", f"{trial_command(region)} -- {command}"]
    return steps
