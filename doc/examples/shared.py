# SPDX-License-Identifier: GPL-2.0-or-later
"""Sum random elements of a numpy array that lies in a file, by default in /dev/shm."""

import sys

import numpy as np

path = sys.argv[1] if len(sys.argv) > 1 else "/dev/shm/tlbcost-example"
elements = int(sys.argv[2]) if len(sys.argv) > 2 else 32_000_000
array = np.memmap(path, dtype=np.int64, mode="w+", shape=elements)
array[:] = 1
where = np.random.default_rng(1).integers(elements, size=4_000_000)
print(sum(int(array[where].sum()) for _ in range(10)))
