# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the committed schemas those of the documents, and is every key described?"""

from __future__ import annotations

import json

import pytest
import schemas
from tlbcost.common.document import undescribed


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_the_committed_schema_is_that_of_the_document(name: str) -> None:
    file = schemas.SCHEMAS / f"{name}.schema.json"
    assert file.read_text(encoding="utf-8") == schemas.text(name), "make bench NAME=schemas"


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_every_key_is_described(name: str) -> None:
    assert undescribed(json.loads(schemas.text(name))) == []
