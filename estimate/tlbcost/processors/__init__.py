# SPDX-License-Identifier: GPL-2.0-or-later
"""What is known of a CPU: its TLBs, its core, the counters that it has?

published.published
event_tables.pmu_of
event_tables.named
formulas.evaluate
cpuid.decode
events_report.text
"""
