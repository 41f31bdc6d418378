# SPDX-License-Identifier: GPL-2.0-or-later
"""Which memory and which code cause page walks, and what would huge pages for each alone save?

simulation.simulated_attribution   by the simulator's tables, with times and gains
samples.sample_misses              a run of the program with samples of its misses
samples.sampled_attribution        by those samples
code_table.read_code               the lines of code in a file; code_profile shows them
folded_stacks.folded               calls for flame-graph tools
document.attribution_part          the attribution, for programs; shares.RegionShare is one region
"""
