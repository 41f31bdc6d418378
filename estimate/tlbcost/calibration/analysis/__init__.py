# SPDX-License-Identifier: GPL-2.0-or-later
"""Analysis of the calibrator's samples: pure functions, with numpy."""
