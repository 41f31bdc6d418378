# SPDX-License-Identifier: GPL-2.0-or-later
"""How does a calibration look as JSON? Written, and read again for a comparison.

data/schema/calibrate.schema.json describes the form; the unit of a value is the suffix of its
quantity's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import cast, get_args

from tlbcost.calibration.cache import Obtained
from tlbcost.calibration.file import quantity_named
from tlbcost.calibration.other_sources import Saying
from tlbcost.calibration.records import Access, Calibration, Cost, Extent
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.system.machine import Machine

SCHEMA = "tlbcost-calibration-3"
# Differ from it in names of quantities alone.
_READ = (SCHEMA, "tlbcost-calibration-2")
_AGAIN = "tlbcost calibrate --json FILE, with this version of tlbcost on that machine"


def as_json(obtained: Obtained, known: Iterable[Saying] = ()) -> dict[str, object]:
    """The calibration as a JSON document. `known` is what others say of the machine."""
    calibration = obtained.calibration
    return {
        "schema": SCHEMA,
        "tlbcost_version": calibration.version,
        "machine": asdict(calibration.machine),
        "extent": calibration.extent,
        "date": calibration.date,
        "duration_s": calibration.duration_s,
        "source": obtained.source,
        "notes": list(obtained.notes),
        "costs": [
            {
                "quantity": cost.quantity,
                "page_size_bytes": cost.page_size_bytes,
                "access": cost.access,
                "footprint_pages": cost.pages,
                "value": cost.interval.value if cost.interval else None,
                "low": cost.interval.low if cost.interval else None,
                "high": cost.interval.high if cost.interval else None,
                "samples": cost.samples,
            }
            for cost in calibration.costs
        ],
        "expected": [asdict(saying) for saying in known],
    }


def read_document(path: Path) -> Calibration:
    """Read what `as_json` wrote. Raises TlbcostError naming the file and its defect."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TlbcostError(f"cannot read {path}: {error.strerror}", _AGAIN) from error
    except (ValueError, RecursionError) as error:
        raise TlbcostError(f"{path}: not a JSON document", _AGAIN) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if not isinstance(schema, str) or not schema.startswith("tlbcost-calibration-"):
        raise TlbcostError(f"{path}: not a calibration", _AGAIN)
    if schema not in _READ:
        raise TlbcostError(f"{path}: a calibration of schema {schema}, not {SCHEMA}", _AGAIN)
    try:
        return _calibration(document)
    except (KeyError, TypeError, ValueError) as error:
        defect = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise TlbcostError(f"{path}: not a whole calibration: {defect}", _AGAIN) from error


def _calibration(document: Mapping[str, object]) -> Calibration:
    machine, costs = document["machine"], document["costs"]
    if not isinstance(machine, dict) or not isinstance(costs, list):
        raise ValueError("machine is no object, or costs no array")
    extent = _text(document, "extent")
    if extent not in get_args(Extent):
        raise ValueError(f"not an extent: {extent}")
    settings = {
        field.name: _optional(machine, field.name)
        for field in fields(Machine)
        if field.name != "base_page_bytes"
    }
    return Calibration(
        machine=Machine(base_page_bytes=_whole(machine, "base_page_bytes"), **settings),
        date=_text(document, "date"),
        version=_text(document, "tlbcost_version"),
        duration_s=_number(document, "duration_s"),
        costs=tuple(_cost(cost) for cost in costs),
        extent=cast(Extent, extent),
    )


def _cost(cost: object) -> Cost:
    if not isinstance(cost, dict):
        raise ValueError(f"not a cost: {str(cost)[:60]}")
    quantity, access = quantity_named(cost["quantity"]), cost["access"]
    if access is not None and access not in get_args(Access):
        raise ValueError(f"not a kind of access: {access}")
    values = [cost[key] for key in ("value", "low", "high")]
    interval = None
    if values != [None, None, None]:
        interval = Interval(*(_number(cost, key) for key in ("value", "low", "high")))
    size, pages = cost["page_size_bytes"], cost["footprint_pages"]
    return Cost(
        quantity,
        None if size is None else _whole(cost, "page_size_bytes"),
        cast("Access | None", access),
        None if pages is None else _whole(cost, "footprint_pages"),
        interval,
        _whole(cost, "samples"),
    )


def _text(where: Mapping[str, object], key: str) -> str:
    value = where[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} is no text")
    return value


def _optional(where: Mapping[str, object], key: str) -> str | None:
    return None if where[key] is None else _text(where, key)


def _number(where: Mapping[str, object], key: str) -> float:
    value = where[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key} is no number")
    if not -1e300 < value < 1e300:
        raise ValueError(f"{key} is not finite")
    return float(value)


def _whole(where: Mapping[str, object], key: str) -> int:
    value = where[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{key} is no whole number")
    return value
