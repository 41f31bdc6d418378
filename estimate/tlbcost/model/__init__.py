# SPDX-License-Identifier: GPL-2.0-or-later
"""Models: from counts and costs to the gain of huge pages (doc/model.md)."""
