# SPDX-License-Identifier: GPL-2.0-or-later
"""Address and protection of a fleet's Dask scheduler."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import ipaddress
import re
import socket
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tlbcost.common.errors import FAILED, TOOL_FAILED, USAGE, TlbcostError

if TYPE_CHECKING:
    from distributed import Security

# For one connection, or one answer of the scheduler.
CONNECT_S = 10
# What Dask says of its own is ours to say, and what it looks at would disturb timings.
_SETTINGS: dict[str, Any] = {
    "logging": {"distributed": "critical", "distributed.client": "critical", "tornado": "critical"},
    "distributed.worker.profile.enabled": False,
    "distributed.worker.http.routes": [],
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.comm.timeouts.connect": f"{CONNECT_S}s",
}
_ADDRESS = re.compile(r"(?:(tcp|tls)://)?(\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]]+):(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Its address, and the files that prove our identity to it."""

    address: str
    ca_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def host(self) -> str:
        return self._parts()[1].strip("[]")

    @property
    def port(self) -> int:
        return int(self._parts()[2])

    @property
    def protocol(self) -> str:
        return self.address[:3]

    def _parts(self) -> tuple[str, ...]:
        found = _ADDRESS.fullmatch(self.address)
        assert found is not None
        return found.groups()


def add_scheduler(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", type=_address, required=required,
        help="of the Dask scheduler: [tls://]HOST:PORT; on this host also tcp://HOST:PORT, which "
        "is what a loopback address without tls:// means",
    )  # fmt: skip
    parser.add_argument(
        "--tls-ca-file", metavar="FILE", type=Path,
        help="with tls://: certificates (PEM) of the authority that signs for this fleet",
    )  # fmt: skip
    parser.add_argument(
        "--tls-cert", metavar="FILE", type=Path, help="with tls://: our certificate (PEM)"
    )
    parser.add_argument(
        "--tls-key", metavar="FILE", type=Path,
        help="with tls://: its private key, unless the certificate's file has it",
    )  # fmt: skip


def _address(text: str) -> str:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[3]) <= 65535:
        raise argparse.ArgumentTypeError(f"not tls://HOST:PORT or tcp://HOST:PORT: {text}")
    if found[1] is not None:
        return text
    return f"{'tcp' if _is_loopback(found[2].strip('[]')) else 'tls'}://{text}"


def scheduler_of(arguments: argparse.Namespace) -> Scheduler | None:
    """What add_scheduler() read. Raises TlbcostError: options that do not fit each other."""
    files = (arguments.tls_ca_file, arguments.tls_cert, arguments.tls_key)
    if any(files) and not (arguments.scheduler or "").startswith("tls://"):
        raise TlbcostError("--tls-* options need --scheduler tls://HOST:PORT", None, USAGE)
    return None if arguments.scheduler is None else Scheduler(arguments.scheduler, *files)


def load_dask() -> None:
    """Have Dask, quiet. Raises TlbcostError: it is not installed."""
    try:
        importlib.import_module("dask").config.set(_SETTINGS)
        importlib.import_module("distributed")
    except ImportError as error:
        hint = f"{sys.executable} -m pip install 'dask[distributed]' (the extra tlbcost[fleet])"
        raise TlbcostError(f"--scheduler needs Dask: {error}", hint, TOOL_FAILED) from error


def security_of(scheduler: Scheduler) -> Security:
    """What Dask needs for TLS. Raises TlbcostError: files that cannot be used."""
    from distributed import Security

    if scheduler.protocol == "tcp":
        return Security(require_encryption=False)
    given = {
        "tls_ca_file": scheduler.ca_file,
        **{f"tls_{role}_cert": scheduler.certificate for role in ("client", "worker")},
        **{f"tls_{role}_key": scheduler.key for role in ("client", "worker")},
    }
    found = {name: str(path) for name, path in given.items() if path is not None}
    security = Security(require_encryption=True, **found)
    # Dask's configuration may have them.
    if any(getattr(security, name) is None for name in ("tls_ca_file", "tls_client_cert")):
        raise TlbcostError(
            "tls:// needs --tls-ca-file and --tls-cert",
            "tlbcost-worker(1) has how to make them",
            USAGE,
        )
    try:
        security.get_connection_args("client")
    except (OSError, ssl.SSLError) as error:
        raise TlbcostError(f"cannot use the files of --tls-*: {_why(error)}") from error
    return security


def check_reachable(scheduler: Scheduler) -> str:
    """Our own address towards it. Raises TlbcostError: no process listens there."""
    try:
        with socket.create_connection((scheduler.host, scheduler.port), CONNECT_S) as connection:
            return str(connection.getsockname()[0])
    except (OSError, UnicodeError) as error:
        raise unreachable(scheduler, error) from error


def unreachable(scheduler: Scheduler, error: BaseException) -> TlbcostError:
    hint = "dask scheduler, on that host, starts one"
    if scheduler.protocol == "tls":
        hint = "both sides need certificates of the same --tls-ca-file"
    return TlbcostError(f"no scheduler at {scheduler.address}: {_why(error)}", hint, FAILED)


def _why(error: BaseException) -> str:
    """Dask wraps what failed; the first cause is for people."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = error.strerror if isinstance(error, OSError) else None
    return " ".join((text or str(error) or type(error).__name__).split())


def check_closed(scheduler: Scheduler, host: str | None = None) -> None:
    """Refuse to be reached without TLS from other hosts: whoever reaches a scheduler or a worker
    can run programs as the users of the workers.

    `host`: where a worker listens, if that is given. Raises TlbcostError.
    """
    if scheduler.protocol == "tls":
        return
    for each, what in ((scheduler.host, scheduler.address), (host, f"--host {host}")):
        if each is not None and not _is_loopback(each):
            raise TlbcostError(
                f"{what}: without TLS, whoever reaches it can run programs as the users of its "
                "workers",
                "--scheduler tls://HOST:PORT --tls-ca-file FILE --tls-cert FILE [--tls-key FILE] "
                "(SECURITY in tlbcost-worker(1))",
                USAGE,
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    with contextlib.suppress(OSError, UnicodeError):
        found = socket.getaddrinfo(host, None)
        return all(ipaddress.ip_address(each[4][0]).is_loopback for each in found)
    return False
