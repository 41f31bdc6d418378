# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines that deploy a remedy: systemd, containers, Kubernetes.

Only remedies that are environment variables, or pages of a pool, have such lines. A value is quoted
by the rules of the file that it stands in, so that the service gets it as it is. What is mounted in
the steps of a remedy is a volume of a Pod: a container cannot mount.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from tlbcost.common.document import Part, doc
from tlbcost.remedies.remedy import Remedy

Place = Literal[
    "shell", "systemd", "Dockerfile", "Compose", "Kubernetes", "sysctl", "kernel command line"
]  # fmt: skip

_SHELL = "https://man7.org/linux/man-pages/man1/export.1p.html"
_SYSTEMD = "https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html"
_DOCKERFILE = "https://docs.docker.com/reference/dockerfile/#env"
_COMPOSE = "https://docs.docker.com/reference/compose-file/services/#environment"
_KUBERNETES = "https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/"
_KUBERNETES_PAGES = "https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/"
_POOL = "https://docs.kernel.org/admin-guide/mm/hugetlbpage.html"
_COMMAND_LINE = "https://docs.kernel.org/admin-guide/kernel-parameters.html"
# What a remedy's steps mount, and where.
_MOUNTED = re.compile(r"mount -t hugetlbfs .* (/\S+)")
# sysctl sets the default pool alone, which is of this size on x86-64.
_DEFAULT_POOL = 2 << 20


class Snippet(Part, frozen=True, kw_only=True):
    """Lines for one place."""

    place: Annotated[Place, doc("where they belong")]
    file: Annotated[str, doc("the file there, or the part of one")]
    text: Annotated[str, doc("the lines")]
    source: Annotated[str, doc("address of the documentation of these fields")]


def snippets(remedy: Remedy, service: str, instances: int) -> tuple[Snippet, ...]:
    """Lines for each place to deploy to, if any; `instances` on a host share its pool."""
    found = [*_variables(remedy.environment, service)] if remedy.environment else []
    pages, page_bytes = remedy.cost.pool_pages, remedy.cost.pool_page_bytes
    if pages is not None and page_bytes is not None:
        mounted = (_MOUNTED.search(step) for step in remedy.steps)
        folder = next((each[1] for each in mounted if each), None)
        found += _pool(pages, page_bytes, instances, folder)
    return tuple(found)


def _variables(variables: Mapping[str, str], service: str) -> Iterator[Snippet]:
    unit = re.sub(r"[^A-Za-z0-9:_.-]+", "-", service).strip("-.")[:80] or "service"
    yield Snippet(
        place="shell",
        file="the script that starts it",
        text="\n".join(f"export {k}={shlex.quote(v)}" for k, v in variables.items()),
        source=_SHELL,
    )
    lines = [f'Environment="{_systemd(f"{k}={v}")}"' for k, v in variables.items()]
    yield Snippet(
        place="systemd",
        file=f"/etc/systemd/system/{unit}.service.d/huge-pages.conf",
        text="\n".join(["[Service]", *lines]),
        source=_SYSTEMD,
    )
    yield Snippet(
        place="Dockerfile",
        file="Dockerfile",
        text="\n".join(f'ENV {k}="{_dockerfile(v)}"' for k, v in variables.items()),
        source=_DOCKERFILE,
    )
    # JSON's strings are YAML's, too.
    compose = [f"  {k}: {json.dumps(v.replace('$', '$$'))}" for k, v in variables.items()]
    yield Snippet(
        place="Compose",
        file="compose.yaml, in the service",
        text="\n".join(["environment:", *compose]),
        source=_COMPOSE,
    )
    env = [
        f"- name: {k}\n  value: {json.dumps(v.replace('$(', '$$('))}" for k, v in variables.items()
    ]
    yield Snippet(
        place="Kubernetes",
        file="the container of the Pod",
        text="\n".join(["env:", *env]),
        source=_KUBERNETES,
    )


def _systemd(text: str) -> str:
    """Within double quotes of a unit file, where % begins a specifier."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return escaped.replace("\n", "\\n")


def _dockerfile(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")


def _pool(pages: int, page_bytes: int, instances: int, folder: str | None) -> Iterator[Snippet]:
    mib = page_bytes >> 20
    name = f"{mib >> 10}Gi" if mib >= 1024 else f"{mib}Mi"
    limits = f"    hugepages-{name}: {pages * mib}Mi"
    lines = [
        "# Kubernetes asks for a request of memory or CPU as well.",
        "resources:", "  limits:", limits, "  requests:", limits,
    ]  # fmt: skip
    volume = f"hugepages-{name.lower()}"
    if folder is not None:
        lines += ["volumeMounts:", f"- name: {volume}", f"  mountPath: {folder}"]
    yield Snippet(
        place="Kubernetes",
        file="the container of the Pod",
        text="\n".join(lines),
        source=_KUBERNETES_PAGES,
    )
    if folder is not None:
        medium = f"    medium: HugePages-{name}"
        yield Snippet(
            place="Kubernetes",
            file="the spec of the Pod, instead of mounting a hugetlbfs",
            text="\n".join(["volumes:", f"- name: {volume}", "  emptyDir:", medium]),
            source=_KUBERNETES_PAGES,
        )
    if page_bytes == _DEFAULT_POOL:
        yield Snippet(
            place="sysctl",
            file="/etc/sysctl.d/huge-pages.conf of each host; of a Kubernetes node, restart its "
            "kubelet afterwards",
            text=f"vm.nr_hugepages = {pages * instances}",
            source=_POOL,
        )
    size = f"{mib >> 10}G" if mib >= 1024 else f"{mib}M"
    yield Snippet(
        place="kernel command line",
        file="GRUB_CMDLINE_LINUX in /etc/default/grub of each host, or of each node of a "
        "Kubernetes node pool",
        text=f"hugepagesz={size} hugepages={pages * instances}",
        source=_COMMAND_LINE,
    )
