# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a damaged table of views refused?"""

from __future__ import annotations

from pathlib import Path

import pytest
from tlbcost.common.errors import TlbcostError
from tlbcost.simulator.views import read_views


@pytest.mark.parametrize("wrong", ["0\tload\t1\t0\tNA\n# end: 1", "0\tload\t1\t0\n# end: 1", ""])
def test_a_damaged_table_of_views_is_refused(tmp_path: Path, wrong: str) -> None:
    header = "# tlbcost views 1\n# pid: 1\n# program: app\n# state: exited\n"
    (tmp_path / "views.1.0.tsv").write_text(
        f"{header}view\taccess\tl1_tlb_misses\tstlb_hits\tstlb_misses\n{wrong}\n"
    )
    with pytest.raises(TlbcostError, match="not a table of the simulator"):
        read_views(tmp_path)
