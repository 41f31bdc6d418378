# SPDX-License-Identifier: GPL-2.0-or-later
"""Why did a simulation fail if the program by itself does not, and what to do about it?"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common.errors import TOOL_FAILED, TlbcostError
from tlbcost.run.outcome import Outcome, describe_limit

# Valgrind's messages about its own faults, including the tool's.
_BROKEN = re.compile(r"VALGRIND INTERNAL ERROR|[`']impossible' happened")
_EVEX = "62"  # the first byte of every AVX-512 instruction
_SVE = 0b0010
_LIBC = ("libc.so", "libm.so", "ld-linux", "libc-")


@dataclass(frozen=True, slots=True)
class BadInstruction:
    """An instruction that the simulator does not know, and where it is."""

    instruction_bytes: str
    function: str | None

    @property
    def kind(self) -> str:
        """What kind of instruction that is, as words."""
        code = self.instruction_bytes
        # EVEX is what AVX-512 (and only that, on today's CPUs) needs.
        if code.split()[:1] == [_EVEX]:
            return "an AVX-512 instruction"
        if self.is_arm:
            # The top-level encodings of the Arm ARM: bits 28 to 25.
            return "an SVE instruction" if int(code, 16) >> 25 & 0xF == _SVE else "an instruction"
        return "an instruction"

    @property
    def is_arm(self) -> bool:
        """It is one word, as on 64-bit Arm."""
        return self.instruction_bytes.startswith("0x")


def find_bad_instruction(logs: Sequence[str]) -> BadInstruction | None:
    """The first unknown instruction in the simulator's logs."""
    for log in logs:
        found = re.search(r"unhandled instruction bytes:((?: 0x[0-9A-Fa-f]{1,2})+)", log)
        code = " ".join(each[2:].zfill(2) for each in found[1].split()).lower() if found else ""
        if found is None:
            found = re.search(r"\(arm64\): unhandled instruction (0x[0-9A-Fa-f]{8})", log)
            if found is None:
                continue
            code = found[1].lower()
        place = re.search(r"\bat 0x[0-9A-Fa-f]+: (.+)", log[found.end() :])
        return BadInstruction(code, place[1].strip() if place else None)
    return None


def bad_instruction_error(name: str, bad: BadInstruction) -> TlbcostError:
    """The message for the user who ran the program of this name."""
    where = f" in {bad.function}" if bad.function else ""
    message = (
        f"cannot simulate {name}: {bad.kind} that the simulator does not know{where} "
        f"(bytes {bad.instruction_bytes})"
    )
    if bad.is_arm:
        hint = (
            "estimate a build without it, such as -march=armv8.2-a instead of -mcpu=native "
            "(this Valgrind knows no SVE), or measure: tlbcost trial"
        )
    elif bad.function and any(library in bad.function for library in _LIBC):
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


def check_simulated(name: str, outcome: Outcome, native: Outcome, folder: Path) -> None:
    """Raise TlbcostError if the simulation failed where the program by itself does not."""
    if outcome.code == native.code:
        return
    logs = _logs(folder)
    bad = find_bad_instruction(logs)
    if bad is not None:
        raise bad_instruction_error(name, bad)
    if outcome.memory_limit_bytes is not None:
        raise TlbcostError(
            f"the simulation of {name} was killed at "
            f"{describe_limit(outcome.memory_limit_bytes)}; natively it fits",
            "raise the limit (the simulator needs about 100 MB and a little per page "
            "that the program touches), or give the program a smaller input",
            TOOL_FAILED,
        )
    if any("memory management: out of memory" in log for log in logs):
        raise TlbcostError(
            f"the simulation of {name} ran out of memory",
            "ulimit -v unlimited, or give the program a smaller input",
            TOOL_FAILED,
        )
    broken = [line for log in logs for line in log.splitlines() if _BROKEN.search(line)]
    if broken:
        raise TlbcostError(
            f"the simulator crashed in {name}: {broken[0]}",
            "please report it, with the program and that line",
            TOOL_FAILED,
        )
    if outcome.signal == signal.SIGKILL:
        raise TlbcostError(
            f"the simulation of {name} was killed by SIGKILL; natively the program was not",
            "free some memory (the kernel's log shows: dmesg | tail), then try again",
            TOOL_FAILED,
        )


def _logs(folder: Path) -> list[str]:
    texts = []
    for path in sorted(folder.glob("log.*")):
        with path.open(encoding="utf-8", errors="replace") as file:
            texts.append(file.read(1 << 20))
    return texts


def reason_of(folder: Path, outcome: Outcome) -> str:
    """Valgrind's first complaint, else its last message, if we have no message of our own."""
    for text in (outcome.last_words, *reversed(_logs(folder))):
        lines = [re.sub(r"^==\d+== ?", "", line).strip() for line in text.splitlines()]
        complaints = [line for line in lines if line.startswith("valgrind: ")]
        if complaints:
            return complaints[0]
        if any(lines):
            return [line for line in lines if line][-1]
    return f"it {outcome.describe()}"
