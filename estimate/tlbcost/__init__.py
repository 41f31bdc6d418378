# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost: what address translation costs a program, and what huge pages would save."""
