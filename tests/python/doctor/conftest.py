# SPDX-License-Identifier: GPL-2.0-or-later
"""The made-up computer that the doctor is tried on."""

from builders.host import host

__all__ = ["host"]
