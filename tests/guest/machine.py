# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a machine with counters of TLB misses had anywhere? Boots Linux for another CPU in QEMU.

The machine's only disk is an archive in memory, which holds busybox, the programs under test and
a list of steps; what the steps leave in /results comes back over the console.
"""

from __future__ import annotations

import base64
import io
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build"
QEMU = "qemu-system-riscv64"
# Alongside ten other programs on two processors a boot with all its steps was seen to take more
# than three minutes: one that hangs is a failure, a slow one is not.
TIMEOUT_S = 800
RESULTS_BEGIN, RESULTS_END = "@@results", "@@end"


@dataclass(frozen=True, slots=True)
class Emulator:
    """QEMU for one kind of CPU: its program, the kernel that it boots, and where that prints."""

    qemu: str
    kernel: Path
    console: str
    memory: str = "512M"
    timeout_s: int = TIMEOUT_S


def riscv64() -> Emulator:
    """The one whose counters count TLB misses."""
    (kernel,) = (BUILD / "guest/linux").glob("vmlinux-*")
    return Emulator(QEMU, kernel, "ttyS0")


@dataclass(frozen=True, slots=True)
class Results:
    """What the steps left: files by name, and all that the console showed."""

    files: Mapping[str, bytes]
    console: str

    def text(self, name: str) -> str:
        """A file as text; a KeyError shows the console, where the reason is."""
        if name not in self.files:
            raise KeyError(f"the guest left no {name}; its console:\n{self.console[-4000:]}")
        return self.files[name].decode()


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive, or with `link` a symbolic link to the path that is its content."""

    content: bytes
    link: bool = False

    @property
    def mode(self) -> int:
        return 0o120777 if self.link else 0o100755


def archive(files: Mapping[str, Member]) -> bytes:
    """A cpio archive of the kind that Linux unpacks at its start ("newc").

    Names are absolute; the folders above them are made.
    """
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
    members = {folder: (0o040755, b"") for folder in sorted(folders - {"/"}, key=len)}
    members |= {name: (file.mode, file.content) for name, file in files.items()}
    out = io.BytesIO()
    for inode, (name, (mode, content)) in enumerate((*members.items(), ("TRAILER!!!", (0, b"")))):
        path = name.lstrip("/").encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        out.write(b"070701" + b"".join(b"%08X" % field for field in fields) + path)
        out.write(b"\0" * (-out.tell() % 4) + content)
        out.write(b"\0" * (-out.tell() % 4))
    return out.getvalue()


def contents(steps: Path, programs: Sequence[Path]) -> dict[str, Member]:
    """What the machine needs to take the steps with the programs.

    The programs lie where they lie here, so that addresses in them can be resolved here.
    """
    files = {
        "/init": Member((HERE / "init").read_bytes()),
        "/steps": Member(steps.read_bytes()),
        "/bin/busybox": Member((BUILD / "guest/linux/busybox").read_bytes()),
    }
    for program in programs:
        files[str(program)] = Member(program.read_bytes())
        files[f"/bin/{program.name}"] = Member(str(program).encode(), link=True)
    return files


def run(command: Sequence[str], console: Path, timeout_s: int) -> tuple[str, str]:
    """What the machine showed until it had switched itself off, and how that ended."""
    console.unlink(missing_ok=True)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s,
            check=False,
        )  # fmt: skip
        said = f"exit code {done.returncode}: {done.stderr}"
    except subprocess.TimeoutExpired:
        said = f"did not end within {timeout_s} s"
    text = console.read_text(errors="replace").replace("\r", "") if console.is_file() else ""
    return text, said


def skipped(why: Path, how: str) -> str:
    """Why there is no machine: what its making wrote, or how it is made."""
    return " ".join(why.read_text().split()) if why.is_file() else f"type: {how}"


def boot(
    name: str,
    processor: Sequence[str],
    files: Mapping[str, Member],
    emulator: Emulator | None = None,
) -> Results:
    """Boot the machine with the files, wait until it has switched itself off, and take its results.

    `processor`: options of QEMU. AssertionError with the console if it does not end well.
    """
    emulator = emulator or riscv64()
    folder = BUILD / "guest" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "initrd").write_bytes(archive(files))
    console = folder / "console"
    command = [emulator.qemu, "-M", "virt", "-m", emulator.memory, "-nodefaults"]
    command += ["-display", "none", "-no-reboot"]
    command += ["-serial", f"file:{console}", "-kernel", str(emulator.kernel)]
    command += ["-initrd", str(folder / "initrd")]
    command += ["-append", f"console={emulator.console} panic=-1 quiet"]
    text, said = run([*command, *processor], console, emulator.timeout_s)
    assert f"\n{RESULTS_END}\n" in text, f"{emulator.qemu} {said}\n{text[-4000:]}"
    before, packed = text.split(f"{RESULTS_BEGIN}\n", 1)
    return Results(unpack(packed.split(f"{RESULTS_END}\n", 1)[0]), before)


def unpack(packed: str) -> dict[str, bytes]:
    """The files of a compressed tar archive in base64."""
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed)), mode="r:gz") as tar:
        files = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {str(PurePosixPath(name)): file.read() for name, file in files.items() if file}
