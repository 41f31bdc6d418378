# SPDX-License-Identifier: GPL-2.0-or-later
"""Metrics as those read them who scrape them."""

from __future__ import annotations

from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser


def families(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    """By both parsers the same samples."""
    both = []
    for read in (
        openmetrics_parser.text_string_to_metric_families,
        parser.text_string_to_metric_families,
    ):
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in read(text):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        both.append(found)
    assert both[0] == both[1]
    return both[0]
