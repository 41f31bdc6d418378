# SPDX-License-Identifier: GPL-2.0-or-later
"""Which instruction did the simulator not know, and what to do about it?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tlbcost.common.errors import TOOL_FAILED, TlbcostError

_EVEX = "62"  # the first byte of every AVX-512 instruction
_LIBC = ("libc.so", "libm.so", "ld-linux", "libc-")


@dataclass(frozen=True, slots=True)
class BadInstruction:
    """An instruction that the simulator does not know, and where it was met."""

    instruction_bytes: str
    function: str | None

    @property
    def is_avx512(self) -> bool:
        """It is encoded with EVEX, which AVX-512 (and only that, on today's CPUs) needs."""
        return self.instruction_bytes.split()[:1] == [_EVEX]


def find_bad_instruction(logs: Sequence[str]) -> BadInstruction | None:
    """The first instruction that the simulator's logs say it does not know."""
    for log in logs:
        found = re.search(r"unhandled instruction bytes:((?: 0x[0-9A-Fa-f]{1,2})+)", log)
        if found is None:
            continue
        code = " ".join(each[2:].zfill(2) for each in found[1].split()).lower()
        place = re.search(r"\bat 0x[0-9A-Fa-f]+: (.+)", log[found.end() :])
        return BadInstruction(code, place[1].strip() if place else None)
    return None


def bad_instruction_error(name: str, bad: BadInstruction) -> TlbcostError:
    """What to tell the user who ran the program of this name."""
    kind = "an AVX-512 instruction" if bad.is_avx512 else "an instruction"
    where = f" in {bad.function}" if bad.function else ""
    message = (
        f"cannot simulate {name}: {kind} that the simulator does not know{where} "
        f"(bytes {bad.instruction_bytes})"
    )
    if bad.function and any(library in bad.function for library in _LIBC):
        hint = (
            "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW tlbcost estimate ... "
            "makes the C library do without it"
        )
    else:
        hint = (
            "estimate a build without it: -march=x86-64-v3 instead of -march=native, or add "
            "-mno-avx512f; a library's own choice may follow "
            "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F"
        )
    return TlbcostError(message, hint, TOOL_FAILED)
