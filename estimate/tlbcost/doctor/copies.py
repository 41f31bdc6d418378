# SPDX-License-Identifier: GPL-2.0-or-later
"""Can a running program be followed in copies here, and whose?"""

from __future__ import annotations

from tlbcost.copies.run import follows_copies_of, is_built
from tlbcost.doctor.check import Check, Value
from tlbcost.system.hints import build, install, is_root, write_setting
from tlbcost.system.tracing import PTRACE_SCOPE, tracing_rights

_INSTEAD = "programs run in Valgrind instead, and --pid does not work"
_SETTING = "kernel.yama.ptrace_scope"


def check_copies(architecture: str) -> Check:
    """What estimates follow: is it built, for this architecture, and what does the kernel allow?"""
    rights = tracing_rights()
    values: dict[str, Value] = {
        "ptrace_scope": rights.scope,
        "cap_sys_ptrace": "yes" if rights.privileged else "no",
        "traceable": rights.traceable,
        "seccomp_filter": "yes" if rights.filtered else "no",
    }
    if not follows_copies_of(architecture):
        finding = f"only on x86-64, not on {architecture}: {_INSTEAD}"
        return Check("copies", "missing", finding, values=values)
    if not is_built():
        finding = f"tlbcost-copies is not built, Zydis (libzydis) was missing: {_INSTEAD}"
        return Check("copies", "missing", finding, _install_and_build(), values=values)
    if rights.locked:
        finding = (
            f"{_SETTING} is {rights.scope}: no process may trace until the next boot; {_INSTEAD}"
        )
        return Check("copies", "limited", finding, values=values)
    if rights.traceable == "none":
        finding = f"{_SETTING} is {rights.scope}: only root may trace; {_INSTEAD}"
        command = write_setting("1", PTRACE_SCOPE)
        return Check("copies", "limited", finding, command, values=values)
    if rights.filtered:
        finding = (
            "tlbcost has a seccomp filter, which a copy of what it runs could be killed by: it "
            "runs in Valgrind instead (for a container: docker run --security-opt "
            "seccomp=unconfined)"
        )
        return Check("copies", "limited", finding, values=values)
    if rights.traceable == "launched":
        finding = (
            f"of programs that tlbcost runs; running processes (--pid) need root, or {_SETTING} 0"
        )
        command = write_setting("0", PTRACE_SCOPE)
        return Check("copies", "limited", finding, command, values=values)
    if rights.traceable == "own" and is_root():
        finding = (
            "of programs that tlbcost runs, and root's; --pid of others needs CAP_SYS_PTRACE (for "
            "a container: docker run --cap-add SYS_PTRACE)"
        )
        return Check("copies", "limited", finding, values=values)
    whose = "every process" if rights.traceable == "all" else "your own processes"
    finding = f"of programs that tlbcost runs, and (--pid) of {whose}"
    return Check("copies", "ok", finding, values=values)


def _install_and_build() -> str | None:
    commands = (install("zydis"), build("all"))
    return " && ".join(each for each in commands if each) if all(commands) else None
