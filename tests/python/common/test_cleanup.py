# SPDX-License-Identifier: GPL-2.0-or-later
"""Where do temporary files go?"""

from __future__ import annotations

import pytest
from tlbcost.common import cleanup
from tlbcost.common.errors import TlbcostError


def test_a_temporary_folder_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    with pytest.raises(TlbcostError, match="TMPDIR") as error, cleanup.temporary_folder():
        pass
    assert error.value.exit_code == 125
