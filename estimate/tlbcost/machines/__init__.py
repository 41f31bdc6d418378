# SPDX-License-Identifier: GPL-2.0-or-later
"""Estimates for other machines and page sizes from a program's memory references."""
