# SPDX-License-Identifier: GPL-2.0-or-later
"""Trials: how much faster a program is on huge pages that it is proven to have."""
