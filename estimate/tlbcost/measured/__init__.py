# SPDX-License-Identifier: GPL-2.0-or-later
"""Gain of huge pages, measured on this machine now.

whole_runs.measure_runs  runs on base and on huge pages at the same time, in turns
arms.measured_in_arms    the same few milliseconds of a running program, in copies of it
record.MeasuredGain      what either found
"""
