# SPDX-License-Identifier: GPL-2.0-or-later
"""What one native run of a program cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tlbcost.common.document import doc


@dataclass(frozen=True, slots=True)
class Run:
    """One native execution of the program and the children it waited for."""

    wall_ns: Annotated[int, doc("elapsed time", minimum=0)]
    user_ns: Annotated[int, doc("CPU time in user mode", minimum=0)]
    system_ns: Annotated[int, doc("CPU time in the kernel", minimum=0)]
    minor_faults: Annotated[int, doc("page faults that read no file", minimum=0)]
    major_faults: Annotated[int, doc("page faults that did", minimum=0)]
    max_rss_bytes: Annotated[int, doc("peak resident memory of one process", minimum=0)]
