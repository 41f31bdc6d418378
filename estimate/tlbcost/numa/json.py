# SPDX-License-Identifier: GPL-2.0-or-later
"""The same for programs: data/schema/numa.schema.json describes it."""

from __future__ import annotations

import json
from dataclasses import asdict

from tlbcost.numa.sampler import NodeMemory
from tlbcost.numa.study import SizeFigures, Study
from tlbcost.numa.words import decision_code, decision_sentence, reasons, verdict

SCHEMA = "tlbcost-numa-1"

Value = dict[str, object]


def to_json(study: Study) -> str:
    """The study as the text of a JSON file."""
    return json.dumps(document(study), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(study: Study) -> Value:
    """The study as nested dictionaries and lists; null: not obtained."""
    plan = study.plan
    return {
        "schema": SCHEMA,
        "tlbcost_version": study.version,
        "date": study.date,
        "machine": asdict(study.machine),
        "argv": list(study.argv),
        "run": asdict(study.run),
        "simulated_ns": study.simulated_ns,
        "nodes": {"count": study.nodes.count, "source": study.nodes.source},
        "threads": study.threads,
        "spread": study.spread,
        "sample": {
            "period_references": plan.period,
            "warm_references": plan.warm,
            "measured_references": plan.measured,
            "interval_references": study.interval_references,
            "l2_bytes": plan.l2_bytes,
            "l3_share_bytes": plan.l3_bytes,
            "caches_source": plan.source,
        },
        "dram_accesses": study.dram_accesses,
        "dram_accesses_per_us_and_node": study.maptu,
        "walk_l2_miss_fraction": study.walk_l2_fraction,
        "false_sharing_fraction": study.false_sharing,
        "page_sizes": [_size(figures) for figures in (study.base, study.huge)],
        "costs_source": study.costs_source,
        "intervals": [asdict(figures) for figures in study.figures],
        "remedies": {name: asdict(score) for name, score in study.remedies.items()},
        "directions": {"translation": study.translation, "placement": study.placement},
        "verdict": verdict(study),
        "carrefour_lp": {
            "code": decision_code(study),
            "sentence": decision_sentence(study),
            **asdict(study.decision),
            "after": asdict(study.after),
            "reasons": reasons(study),
        },
        "real": None if study.real is None else _memory(study.real),
        "why_not_real": study.why_not_real,
    }


def _size(figures: SizeFigures) -> Value:
    return {
        "page_size_bytes": figures.page_size_bytes,
        "first_touch": asdict(figures.first_touch),
        "interleaved": asdict(figures.interleaved),
        "hot_pages": None if figures.hot is None else asdict(figures.hot),
        "data_walks": figures.data_walks,
        "page_faults": figures.page_faults,
        "fault_time_ns": figures.fault_time_ns,
        "largest_thread_fault_fraction": figures.largest_thread_fault_fraction,
    }


def _memory(real: NodeMemory) -> Value:
    def by_node(values: dict[int, int]) -> Value:
        return {str(node): n for node, n in sorted(values.items())}

    return {
        "bytes_on": by_node(dict(real.bytes_on)),
        "anonymous_bytes_on": by_node(dict(real.anonymous_bytes_on)),
        "policies": list(real.policies),
        "sampled_pages": None if real.sampled_pages is None else by_node(dict(real.sampled_pages)),
    }
