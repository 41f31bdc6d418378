# SPDX-License-Identifier: GPL-2.0-or-later
"""What would a program's memory references cost on other machines and page sizes?

estimate.estimate_machines   one run of the simulator for all of them
plan.named                   a core of data/machines by one of its names
document.to_json             the estimate for programs
list_document.machine_list   all cores that are known, for programs; list_report.listing for people
"""
