# SPDX-License-Identifier: GPL-2.0-or-later
"""One run of a program in the simulator, and the ways in which it can fail."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, TlbcostError
from tlbcost.common.files import remove_left, temporary_place
from tlbcost.common.progress import Progress
from tlbcost.processors.published import Geometry, TlbLevel
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome, describe_limit
from tlbcost.simulator import memory_tables
from tlbcost.simulator.counts import ImageViews, ProcessCounts, read_counts, read_views
from tlbcost.system import hints

_GRACE_S = 5.0
_SETTLING_S = 1.0
_POLL_S = 0.02
# Valgrind's messages about its own faults, including the tool's.
_BROKEN = re.compile(r"VALGRIND INTERNAL ERROR|[`']impossible' happened")
_EVEX = "62"  # the first byte of every AVX-512 instruction
_SVE = 0b0010
_LIBC = ("libc.so", "libm.so", "ld-linux", "libc-")


@dataclass(frozen=True, slots=True)
class Simulation:
    """What was counted, modelled and attributed in each process image, and how the run ended.

    `left_behind`: processes that still ran when the program had ended; counted until then.
    """

    processes: tuple[ProcessCounts, ...]
    outcome: Outcome
    windows: tuple[memory_tables.ImageWindows, ...] = ()
    attributions: tuple[memory_tables.ImageAttribution, ...] = ()
    views: tuple[ImageViews, ...] = ()
    left_behind: int = 0


def find_valgrind() -> Path:
    """Valgrind itself: Debian's wrapper changes the environment. Raises TlbcostError (4)."""
    found = shutil.which("valgrind")
    if found is None:
        raise TlbcostError(
            "cannot count TLB misses: valgrind is not installed",
            hints.install("valgrind") or "tlbcost doctor, which shows how to get valgrind",
            CANNOT_MEASURE,
        )
    if not any(paths.valgrind_lib().glob("tlbsim-*")):
        raise TlbcostError(
            f"cannot count TLB misses: the simulator is not built ({paths.valgrind_lib()})",
            hints.rebuild(),
            CANNOT_MEASURE,
        )
    real = Path(found).with_name("valgrind.bin")
    return real if os.access(real, os.X_OK) else Path(found)


def simulator_command(
    valgrind: Path,
    folder: Path,
    geometry: Geometry,
    windows: memory_tables.WindowPlan | None = None,
    core: str | None = None,
    options: Sequence[str] = (),
) -> list[str]:
    """The command line before the program's; `windows` and `core` need each other."""
    modelled = []
    if windows is not None and core is not None:
        modelled = [f"--windows={windows.option}", f"--core={core}"]
    return [
        str(valgrind),
        "--tool=tlbsim",
        "--trace-children=yes",
        # The debugger's pipes would remain in TMPDIR when a process is killed.
        "--vgdb=no",
        f"--log-file={folder}/log.%p",
        f"--counts-dir={folder}",
        *memory_tables.OPTIONS.split(),
        *("=".join(option) for option in level_options(geometry)),
        *modelled,
        *options,
    ]


def level_options(geometry: Geometry) -> list[tuple[str, str]]:
    """Options that say which TLBs to model, and their values; both engines have them."""
    base, huge = geometry.base, geometry.huge
    return [
        ("--base-page", str(base.page_size_bytes)),
        ("--huge-page", str(huge.page_size_bytes)),
        ("--l1d", f"{_level(base.dtlb)},{_level(huge.dtlb)}"),
        ("--l1i", f"{_level(base.itlb)},{_level(huge.itlb)}"),
        ("--stlb", f"{_level(base.stlb)},{_level(huge.stlb)}"),
        *([("--stlb-folded", "yes")] if geometry.stlb_folded else []),
    ]


def _valgrind_lib(folder: Path) -> Path:
    """Valgrind names a library there in LD_PRELOAD, in which blanks and colons separate."""
    found = paths.valgrind_lib()
    if not re.search(r"[\s:]", str(found)):
        return found
    if re.search(r"[\s:]", str(folder)):
        raise TlbcostError(
            f"Valgrind cannot run from {found}, nor from {folder}: both names have a blank or ':'",
            "TMPDIR=/tmp",
            CANNOT_MEASURE,
        )
    link = folder.with_name(f"{folder.name}-valgrind")
    link.symlink_to(found)
    return link


def simulate(
    launcher: Launcher,
    valgrind: Path,
    geometry: Geometry,
    argv: Sequence[str],
    native: Outcome,
    windows: memory_tables.WindowPlan | None = None,
    core: str | None = None,
    options: Sequence[str] = (),
    read: Callable[[Path], None] | None = None,
) -> Simulation:
    """Run the program once in the simulator; `windows` and `core` as for `simulator_command`.

    Of the launcher's region, if it has one, it counts and models what the program's own process
    does in it. `options`: more of the simulator's; `read` gets the folder of its tables before it
    is removed. `native` is how it ends by itself.

    Raises TlbcostError with exit code 125 if the simulation was
    stopped by something that does not happen natively, or counted nothing.
    """
    folder = launcher.folder / f"counts{launcher.runs}"
    folder.mkdir()
    if launcher.user is not None:
        os.chown(folder, launcher.user.uid, launcher.user.gid)
    if launcher.region is not None:
        options = (*options, *launcher.region.options("--region-start", "--region-end"))
    try:
        with Progress("simulation") as progress:
            run = native.run
            outcome = launcher.execute(
                [*simulator_command(valgrind, folder, geometry, windows, core, options), *argv],
                discard=True,
                environment={**os.environ, "VALGRIND_LIB": str(_valgrind_lib(folder))},
                tick=None if run is None else progress.simulating(run.cpu_ns, run.wall_ns),
                whole=True,
            )
    finally:
        # Else the folder could not be removed: they make files in it.
        left_behind = end_left_behind(folder)
    if outcome.exec_errno is not None:
        raise TlbcostError(
            f"cannot run {valgrind}: {os.strerror(outcome.exec_errno).lower()}",
            hints.install("valgrind") or "tlbcost doctor, which shows how to get valgrind",
            CANNOT_MEASURE,
        )
    if launcher.region is not None:
        _leave_first_process(folder)
    processes = read_counts(folder)
    check_simulated(argv[0], outcome, native, folder)
    # Every program fetches its first instruction from a page that no TLB holds yet.
    sides = [item for process in processes for item in (process.counts or {}).items()]
    if not any(seen.l1_tlb_misses for (_, side), seen in sides if side == "fetch"):
        raise TlbcostError(
            "the simulation counted nothing: " + reason_of(folder, outcome),
            "tlbcost doctor",
            TOOL_FAILED,
        )
    if all(process.touched is None for process in processes):
        raise TlbcostError(
            "the simulator ran out of memory for noting which pages the program touches",
            "ulimit -v unlimited, or give the program less to do",
            TOOL_FAILED,
        )
    if read is not None:
        read(folder)
    return Simulation(
        processes,
        outcome,
        memory_tables.read_windows(folder),
        memory_tables.read_attributions(folder),
        read_views(folder),
        left_behind,
    )


def _leave_first_process(folder: Path) -> None:
    """Remove what others wrote: a region is timed natively in the process that was started."""
    parents = {each.pid: each.parent_pid for each in read_counts(folder)}
    first = {pid for pid, parent in parents.items() if parent not in parents}
    for table in folder.glob("*.tsv"):
        if int(table.name.split(".")[1]) not in first:
            table.unlink()


def _level(level: TlbLevel | None) -> str:
    return "0:0" if level is None else f"{level.entries}:{level.ways}"


def end_left_behind(folder: Path) -> int:
    """End the simulated processes that write their tables into `folder`; how many there were.

    Natively they live on, as without tlbcost. Their copies in the simulator have no purpose: asked
    to end, the simulator writes what it has counted of them.
    """
    found = _settled(folder)
    for number, seconds in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
        deadline = time.monotonic() + seconds
        left = _simulated(folder)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        while _simulated(folder) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
    # Valgrind's own files, if it was killed as it made them.
    remove_left(temporary_place())
    return len(found)


def _settled(folder: Path) -> list[int]:
    """Those that run, once none is just becoming another program: it has no command line then."""
    deadline = time.monotonic() + _SETTLING_S
    while True:
        found = _simulated(folder)
        logged = [log.name.rpartition(".")[2] for log in folder.glob("log.*")]
        becoming = [pid for pid in logged if _has_no_words(Path("/proc", pid))]
        if not becoming or time.monotonic() >= deadline:
            return found
        time.sleep(_POLL_S)


def _has_no_words(process: Path) -> bool:
    with contextlib.suppress(OSError):
        stat = (process / "stat").read_text(encoding="utf-8", errors="replace")
        return ") Z" not in stat and not (process / "cmdline").read_bytes()
    return False


def _simulated(folder: Path) -> list[int]:
    # The folder's name is used once, and each process of the simulator is started with it.
    option = os.fsencode(f"--counts-dir={folder}")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if option in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


@dataclass(frozen=True, slots=True)
class BadInstruction:
    """An instruction that the simulator does not know, and where it is."""

    instruction_bytes: str
    function: str | None

    @property
    def kind(self) -> str:
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
