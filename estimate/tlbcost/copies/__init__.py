# SPDX-License-Identifier: GPL-2.0-or-later
"""How often does a program miss the TLBs, by following copies of it while it runs natively?

run.copies_tool              the launcher that runs the program and copies its threads
process.follow_process       the same for a process that already runs
tables.read_tables           what it wrote, window by window
estimator.simulation_of      windows weighed by the program's CPU time: counts, gain, attribution
record.CopiesRecord          what was copied, and what that cost the program
"""
