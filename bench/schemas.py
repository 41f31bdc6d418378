# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the schemas of tlbcost's documents for programs: data/schema/*.schema.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.attribution.code_profile import CodeProfileDocument
from tlbcost.attribution.sites import SitePlan
from tlbcost.calibration.document import CalibrationDocument
from tlbcost.common.document import schema_of
from tlbcost.counters.count_report import CountDocument
from tlbcost.counters.profile import ProfileDocument
from tlbcost.doctor.check import Examination
from tlbcost.fleet.document import FleetDocument
from tlbcost.live.document import TopDocument
from tlbcost.machines.document import MachineEstimateDocument
from tlbcost.machines.list_document import MachineList
from tlbcost.memory.process import MemoryMaps
from tlbcost.numa.study import Study
from tlbcost.numa.watch.document import WatchDocument
from tlbcost.pagesizes.document import PageSizesDocument
from tlbcost.processors.events_report import EventsDocument
from tlbcost.report.comparison import ComparisonDocument
from tlbcost.review.document import ReviewDocument
from tlbcost.review.gate import ReviewComparison
from tlbcost.review.plan import Plan
from tlbcost.thp.program import Reached
from tlbcost.trial.document import TrialDocument

SCHEMAS = Path(__file__).resolve().parent.parent / "data" / "schema"

# The document of each file, and its title.
DOCUMENTS: dict[str, tuple[type, str]] = {
    "calibrate": (CalibrationDocument, "tlbcost calibrate"),
    "compare": (ComparisonDocument, "tlbcost compare"),
    "code-profile": (CodeProfileDocument, "tlbcost annotate, of code"),
    "count": (CountDocument, "tlbcost count"),
    "doctor": (Examination, "tlbcost doctor"),
    "estimate": (EstimateDocument, "tlbcost estimate"),
    "fleet": (FleetDocument, "tlbcost review --counts"),
    "machine-estimate": (MachineEstimateDocument, "tlbcost estimate --machine, --page-size"),
    "events": (EventsDocument, "tlbcost events"),
    "machines": (MachineList, "tlbcost machines"),
    "maps": (MemoryMaps, "tlbcost maps"),
    "plan": (SitePlan, "tlbcost estimate --plan"),
    "profile": (ProfileDocument, "tlbcost annotate, of a recording"),
    "numa": (Study, "tlbcost numa"),
    "numa-watch": (WatchDocument, "tlbcost numa --watch"),
    "pagesizes": (PageSizesDocument, "tlbcost pagesizes"),
    "review": (ReviewDocument, "tlbcost review"),
    "review-comparison": (ReviewComparison, "tlbcost review --compare"),
    "review-plan": (Plan, "plan of tlbcost review"),
    "run": (Reached, "tlbcost run"),
    "top": (TopDocument, "tlbcost top"),
    "trial": (TrialDocument, "tlbcost trial"),
}


# Written by people.
INPUTS = ("review-plan",)


def text(name: str) -> str:
    """The schema's file as it has to be."""
    document, title = DOCUMENTS[name]
    schema = schema_of(document, title, written=name not in INPUTS)
    # A name, and no place on the net.
    named = {"$schema": schema.pop("$schema"), "$id": f"urn:tlbcost:schema:{name}", **schema}
    return json.dumps(named, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write them all."""
    for name in DOCUMENTS:
        (SCHEMAS / f"{name}.schema.json").write_text(text(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
