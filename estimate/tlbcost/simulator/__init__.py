# SPDX-License-Identifier: GPL-2.0-or-later
"""How often does a program miss the TLBs, and what would the misses cost a core?

run.simulate                 runs a program once in the simulator, and reads all its tables
geometry.geometry_for        the TLBs to simulate
core.core_for                the core to time on; conditions.Conditions is the machine during runs
windows.plan_for             which windows are timed; read_windows
counts.read_counts           misses and touched memory of each process image; total_counts
memory_tables.read_attributions    misses by memory region, code, calls and phase
views.View                   the same references on other machines and page sizes
"""
