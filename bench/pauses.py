# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the requests of a server lose while `tlbcost estimate --pid` looks at it?

Writes doc/benchmarks.md. A client sends requests at a constant rate, whatever becomes of them, and
times each from the instant that it was due, so that a stall is not hidden. Without tlbcost, while
the server is followed and measured, and the same with --most-pause 1ms. Two minutes a server; one
that is not installed is left out. Exits 1 if a response is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parent.parent
PAGE = TREE / "doc" / "benchmarks.md"
BEGIN, END = "<!-- pauses: begin -->\n", "<!-- pauses: end -->\n"
RATE, SECONDS, KEYS = 2000, 30, 1_000_000
VALUE = b"x" * 100
WAYS = {"alone": None, "--pid": [], "--most-pause 1ms": ["--most-pause", "1ms"]}


@dataclass(frozen=True, slots=True)
class Server:
    """A request, whose responses all have the same length."""

    pid: int
    address: str
    request: bytes
    response_bytes: int


def connected(path: str) -> socket.socket:
    for _ in range(1000):
        with contextlib.suppress(OSError):
            made = socket.socket(socket.AF_UNIX)
            made.connect(path)
            return made
        time.sleep(0.01)
    raise TimeoutError(path)


def exchange(path: str, request: bytes, response_bytes: int) -> None:
    with connected(path) as own:
        threading.Thread(target=own.sendall, args=(request,), daemon=True).start()
        while response_bytes > 0:
            response_bytes -= len(own.recv(1 << 16))


@contextlib.contextmanager
def started(words: list[str], folder: str) -> Iterator[subprocess.Popen[bytes]]:
    server = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        yield server
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def redis(folder: str) -> Iterator[Server]:
    path = f"{folder}/redis"
    words = [
        "redis-server",
        "--port",
        "0",
        "--unixsocket",
        path,
        "--save",
        "",
        "--appendonly",
        "no",
    ]
    with started(words, folder) as server:
        sets = b"".join(b"SET key%07d %s\r\n" % (n, VALUE) for n in range(KEYS))
        exchange(path, sets, 5 * KEYS)
        yield Server(server.pid, path, b"GET key%07d\r\n", len(b"$100\r\n\r\n") + 100)


@contextlib.contextmanager
def memcached(folder: str) -> Iterator[Server]:
    path = f"{folder}/memcached"
    words = ["memcached", "-s", path, "-m", "1024", "-u", "root", "-t", "1"]
    with started(words, folder) as server:
        sets = b"".join(b"set key%07d 0 0 100\r\n%s\r\n" % (n, VALUE) for n in range(KEYS))
        exchange(path, sets, 8 * KEYS)
        length = len(b"VALUE key0000000 0 100\r\n\r\nEND\r\n") + 100
        yield Server(server.pid, path, b"get key%07d\r\n", length)


@contextlib.contextmanager
def nginx(folder: str) -> Iterator[Server]:
    path = f"{folder}/nginx.socket"
    (Path(folder) / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr crit;\n"
        "events {}\nhttp { access_log off; keepalive_requests 1000000000;\n"
        f"server {{ listen unix:{path}; location / {{ return 200 '{VALUE.decode()}'; }} }} }}\n"
    )
    with started(["nginx", "-p", folder, "-c", f"{folder}/nginx.conf"], folder) as server:
        request = b"GET /%07d HTTP/1.1\r\nHost: x\r\n\r\n"
        with connected(path) as own:
            own.sendall(request % 0)
            time.sleep(0.2)
            length = len(own.recv(1 << 16))
        yield Server(server.pid, path, request, length)


SERVERS = {"redis-server": redis, "memcached": memcached, "nginx": nginx}


def latencies(server: Server) -> list[float]:
    """Seconds from the instant that each request was due to its response, in order."""
    number = RATE * SECONDS
    taken: list[float] = []
    with connected(server.address) as own:
        begin = time.monotonic() + 0.1

        def send() -> None:
            n = 0
            while n < number:
                due = min(number, int((time.monotonic() - begin) * RATE) + 1)
                if due > n:
                    keys = ((7919 * i) % KEYS for i in range(n, due))
                    own.sendall(b"".join(server.request % key for key in keys))
                    n = due
                time.sleep(max(0.0, begin + n / RATE - time.monotonic()))

        threading.Thread(target=send, daemon=True).start()
        got = 0
        own.settimeout(10)
        while len(taken) < number:
            got += len(own.recv(1 << 16))
            now = time.monotonic()
            while len(taken) < min(number, got // server.response_bytes):
                taken.append(now - begin - len(taken) / RATE)
    return taken


def row(name: str, way: str, found: list[float]) -> str:
    ordered = sorted(found)
    cells = [ordered[int(len(ordered) * part)] for part in (0.5, 0.99, 0.999)] + [ordered[-1]]
    return f"| {name} | {way} | " + " | ".join(f"{1000 * cell:.2f}" for cell in cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SERVERS, help="this server; nothing is written")
    only = parser.parse_args().only
    lines = [
        "| server | tlbcost | p50, ms | p99 | p99.9 | worst |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, make in SERVERS.items():
        if shutil.which(name) is None or (only and name != only):
            continue
        with tempfile.TemporaryDirectory() as folder, make(folder) as server:
            for way, options in WAYS.items():
                watch = None
                if options is not None:
                    words = ["estimate", "--quiet", "--pid", str(server.pid), "--seconds", "12"]
                    watch = subprocess.Popen(
                        [str(TREE / "build/tlbcost"), *words, *options],
                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    )  # fmt: skip
                lines.append(row(name, way, latencies(server)))
                print(lines[-1], flush=True)
                if watch is not None:
                    watch.wait()
    if not only:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN, 1)
        section = f"{BEGIN}{chr(10).join(lines)}\n{END}"
        PAGE.write_text(before + section + rest.split(END, 1)[1], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
