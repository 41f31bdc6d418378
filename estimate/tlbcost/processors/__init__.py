# SPDX-License-Identifier: GPL-2.0-or-later
"""What is known about a CPU: its TLBs, its core, its counters?

published.published
event_tables.pmu_of
event_tables.named
formulas.evaluate
cpuid.decode
events_report.text
"""
