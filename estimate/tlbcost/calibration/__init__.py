# SPDX-License-Identifier: GPL-2.0-or-later
"""Costs of address translation on this machine, and the calibration that measures them."""
