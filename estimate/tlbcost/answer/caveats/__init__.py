# SPDX-License-Identifier: GPL-2.0-or-later
"""Caveats of an estimate, a function each; doc/caveats.md has a paragraph on each."""
