# SPDX-License-Identifier: GPL-2.0-or-later
"""Do the Python readers survive damaged files? As tests/python/readers/test_fuzz.py, but faster.

Each reader in turn, for a second at a time. An input that is neither read nor refused is kept in
the folder that is named; put it into tests/fuzz/corpus/READER.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

from readers.test_fuzz import FOUND, READERS, WORDS, read_or_refuse

_LENGTHS = (0, 0, 1, 2, 4, 8, 30, 200)


def mutated(draw: random.Random, seed: bytes) -> bytes:
    """A sound file with parts cut out, doubled or replaced; at its beginning more often."""
    made = bytearray(seed)
    for _ in range(draw.randint(1, 6)):
        at = draw.randint(0, draw.choice([len(made), min(len(made), 128)]))
        length = draw.choice(_LENGTHS)
        other = draw.randint(0, len(made))
        piece = draw.choice(
            [draw.choice(WORDS), draw.randbytes(draw.randint(0, 8)), bytes(made[at : at + length]),
             bytes(made[other : other + length])]
        )  # fmt: skip
        made[at : at + length] = piece * draw.randint(1, 2)
    return bytes(made)


def fuzz(name: str, seconds: float, draw: random.Random, folder: Path, kept: Path) -> int:
    """Give this reader damaged files; how many. Raises what the reader raised."""
    seeds = [READERS[name][0], *(path.read_bytes() for path in FOUND if path.parent.name == name)]
    end, given = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        content = mutated(draw, draw.choice(seeds))
        # A name of its own: readers remember files by name, size and time.
        path = folder / f"{given}"
        path.write_bytes(content)
        try:
            read_or_refuse(name, path)
        except BaseException:
            (kept / f"found-{name}").write_bytes(content)
            raise
        path.unlink()
        given += 1
    return given


def main() -> int:
    """Fuzz; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("kept", type=Path, help="the folder for inputs that were not refused")
    given = parser.parse_args()
    draw, failed = random.Random(given.seed), 0
    counts: collections.Counter[str] = collections.Counter()
    end = time.monotonic() + given.seconds
    with tempfile.TemporaryDirectory(prefix="tlbcost-fuzz-") as folder:
        while time.monotonic() < end and not failed:
            for name in READERS:
                try:
                    counts[name] += fuzz(name, 1, draw, Path(folder), given.kept)
                except Exception:
                    traceback.print_exc()
                    print(f"see {given.kept}/found-{name}", file=sys.stderr)
                    failed = 1
    parts = ", ".join(f"{name} {count}" for name, count in counts.items())
    print(f"Python readers: {counts.total()} damaged files (seed {given.seed}): {parts}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
