# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import io
import re
from dataclasses import replace

from builders.record import TWO
from tlbcost.validation.stream import StreamResult, print_stream, rates_heard

STREAM = """Function    Rate (MB/s)    Avg time    Min time    Max time
Copy:           13490.1    0.053065    0.053064    0.053066
Scale:          13519.0    0.053065    0.053064    0.053066
Add:            14852.5    0.053065    0.053064    0.053066
Triad:          14904.9    0.053065    0.053064    0.053066
checksum 00
"""


def test_rates_are_medians_of_the_runs_on_each_kind_of_pages() -> None:
    faster = STREAM.replace("13490.1", "14000.0")
    heard = [
        (("stream",), STREAM),
        (("hugectl", "--heap", "stream"), faster),
        (("stream",), STREAM),
        (("hugectl", "--heap", "stream"), "no table: killed"),
    ]
    copy, *_, triad = rates_heard(["stream"], heard)
    assert (copy.function, copy.base, copy.huge) == ("Copy", 13490.1, 14000.0)
    assert (triad.base, triad.huge) == (14904.9, 14904.9)


def test_a_rate_that_no_run_printed_is_none() -> None:
    rates = rates_heard(["stream"], [(("stream",), STREAM)])
    assert [rate.huge for rate in rates] == [None] * 4
    text = io.StringIO()
    print_stream(StreamResult("STREAM", TWO.programs[0], tuple(rates)), text, details=True)
    assert re.search(r"^Copy \(MB/s\) +13,490 +NA +NA$", text.getvalue(), re.MULTILINE)


def test_an_unproven_stream_shows_no_figures() -> None:
    unproven = replace(TWO.programs[0], excluded="0 B of 1 GiB")
    text = io.StringIO()
    print_stream(StreamResult("STREAM", unproven, ()), text, details=True)
    assert text.getvalue() == "STREAM: no result: 0 B of 1 GiB\n"
