# SPDX-License-Identifier: GPL-2.0-or-later
"""Attribution of page walks to memory and code, and the gain of each region alone."""
