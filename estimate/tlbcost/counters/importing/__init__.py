# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts that another tool took, perhaps on another machine."""
