# SPDX-License-Identifier: GPL-2.0-or-later
"""What do hardware counters say about a program, and where in it did the events happen?

count_session.count
count_runs.count_program
recording.record
recording.take_samples
event_support.event_support
pmu.find_pmu
importing.file.import_file
"""
