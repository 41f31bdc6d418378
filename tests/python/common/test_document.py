# SPDX-License-Identifier: GPL-2.0-or-later
"""Have documents the fields of what they show, whatever computed their figures?"""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from tlbcost.common.document import Part, part_of, to_json


class _Cost(Part):
    walk_ns: float


class _Sizes(Part):
    small_bytes: int
    large_bytes: int


def test_a_figure_of_numpy_is_a_figure() -> None:
    assert json.loads(to_json(_Cost(walk_ns=np.float64(1.5)))) == {"walk_ns": 1.5}


def test_what_is_no_figure_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        to_json({"walk_ns": object()})


def test_a_part_has_the_attributes_of_its_fields_names_but_for_others() -> None:
    source = SimpleNamespace(small_bytes=1, large_bytes=2, colour="red")
    assert part_of(_Sizes, source) == _Sizes(small_bytes=1, large_bytes=2)
    assert part_of(_Sizes, source, large_bytes=3) == _Sizes(small_bytes=1, large_bytes=3)


def test_a_field_without_a_value_is_refused() -> None:
    with pytest.raises(TypeError, match="large_bytes"):
        part_of(_Sizes, SimpleNamespace(small_bytes=1))
