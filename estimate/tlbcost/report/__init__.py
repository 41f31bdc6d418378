# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports to people, read from an estimate's document, so that a saved one reads the same."""
