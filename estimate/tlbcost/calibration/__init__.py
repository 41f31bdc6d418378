# SPDX-License-Identifier: GPL-2.0-or-later
"""What does address translation cost on this machine?

request.obtain, calibration_for    the cached calibration, one measured now, or that of a file
cache.look_up                      the cached one alone
file.read_calibration              one from its table
costs.page_costs, cost_at          what one event costs at a footprint
loads.loads                        what a load costs by where its line is
other_sources.reported_figures     what CPUID, sysfs and published tables say of the same
calibrator.run_calibrator          one run of the C program
analysis                           samples to quantities, with numpy
"""
