# SPDX-License-Identifier: GPL-2.0-or-later
"""Hardware counters: counts of a program, and where in it events happen."""
