# SPDX-License-Identifier: GPL-2.0-or-later
"""The simulator: TLB misses of a program, and their cost on a core."""
