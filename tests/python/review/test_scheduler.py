# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a scheduler's address read as it is meant, and is one that anybody can use refused?"""

from __future__ import annotations

import argparse
import re
import socket

import pytest
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.review.scheduler import Scheduler, add_scheduler, check_closed, scheduler_of


def read(*words: str) -> Scheduler | None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_scheduler(parser, required=False)
    return scheduler_of(parser.parse_args(words))


def test_addresses() -> None:
    assert read() is None
    found = read("--scheduler", "tls://[::1]:8786", "--tls-cert", "c")
    assert found is not None
    assert (found.protocol, found.host, found.port) == ("tls", "::1", 8786)
    found = read("--scheduler", "tcp://build-1.example:1")
    assert found is not None
    assert (found.protocol, found.host, found.port) == ("tcp", "build-1.example", 1)
    found = read("--scheduler", "127.0.0.1:1")
    assert found is not None
    assert found.address == "tcp://127.0.0.1:1"
    found = read("--scheduler", "[2001:db8::1]:1", "--tls-cert", "c")
    assert found is not None
    assert found.address == "tls://[2001:db8::1]:1"


@pytest.mark.parametrize(
    "text",
    ["host", "tcp://host", "tcp://:1", "tcp://h:0", "tcp://h:65536", "ucx://h:1",
     "tcp://h:1/x", "tcp://::1:8786", ""],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="not tls://HOST:PORT"):
        read("--scheduler", text)


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("tcp://127.0.0.1:1", False),
        ("tcp://127.8.0.1:1", False),
        ("tcp://[::1]:1", False),
        ("tcp://localhost:1", False),
        ("tls://192.0.2.1:1", False),
        ("tcp://192.0.2.1:1", True),
        ("tcp://[2001:db8::1]:1", True),
        ("tcp://partly:1", True),
        ("tcp://unknown:1", True),
    ],
)
def test_a_scheduler_that_others_reach_without_tls_is_refused(
    address: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = {"localhost": ["127.0.0.1", "::1"], "partly": ["127.0.0.1", "192.0.2.1"]}

    def look_up(host: str, _: None) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if host not in numbers:
            raise socket.gaierror
        return [(0, 0, 0, "", (number, 0)) for number in numbers[host]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    if not refused:
        check_closed(Scheduler(address))
        return
    with pytest.raises(TlbcostError, match=f"{re.escape(address)}: without TLS") as error:
        check_closed(Scheduler(address))
    assert error.value.exit_code == USAGE
    assert error.value.hint is not None
    assert "--tls-ca-file FILE --tls-cert FILE" in error.value.hint


def test_nor_does_a_worker_listen_to_others_without_tls() -> None:
    check_closed(Scheduler("tcp://127.0.0.1:1"), "127.0.0.2")
    check_closed(Scheduler("tls://127.0.0.1:1"), "192.0.2.1")
    with pytest.raises(TlbcostError, match=r"--host 192\.0\.2\.1: without TLS"):
        check_closed(Scheduler("tcp://127.0.0.1:1"), "192.0.2.1")
