# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the calibrator's samples say? Pure functions, with numpy.

quantities.analyse    samples to the quantities of a calibration, and the curves behind them
samples.read_samples  samples to curves
steps.find_steps      where a curve steps up
"""
