# SPDX-License-Identifier: GPL-2.0-or-later
"""The answer for a program: cost of translation, gain of huge pages, and what to do."""
