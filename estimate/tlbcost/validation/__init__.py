# SPDX-License-Identifier: GPL-2.0-or-later
"""Validation: errors of estimates against what huge pages save on this machine."""
