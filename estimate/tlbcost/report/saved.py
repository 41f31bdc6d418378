# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimates that --json saved, of a version that can be shown."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tlbcost.answer.estimate_document import SCHEMA, EstimateDocument
from tlbcost.common.document import from_json
from tlbcost.common.errors import TlbcostError
from tlbcost.common.reading import read_text

_NAME = "tlbcost-estimate-"
_HINT = "tlbcost estimate --json FILE writes one that tlbcost show and compare read"


class _Head(msgspec.Struct):
    schema: str


def read_estimate(path: Path) -> EstimateDocument:
    text = read_text(path, hint=_HINT)
    try:
        found = from_json(text, _Head).schema
    except msgspec.DecodeError as error:
        raise TlbcostError(f"{path}: not an estimate: {error}", _HINT) from error
    if found != SCHEMA:
        raise _other(path, found)
    try:
        return from_json(text, EstimateDocument)
    except msgspec.DecodeError as error:
        raise TlbcostError(f"{path}: an estimate with a defect: {error}", _HINT) from error


def _other(path: Path, found: str) -> TlbcostError:
    if not found.startswith(_NAME):
        return TlbcostError(f"{path}: not an estimate, but {found[:40]}", _HINT)
    return TlbcostError(
        f"{path}: an estimate of version {found.removeprefix(_NAME)[:8]}; this tlbcost reads "
        f"version {SCHEMA.removeprefix(_NAME)}",
        "estimate the program again; CHANGELOG.md says which keys changed",
    )
