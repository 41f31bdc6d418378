# SPDX-License-Identifier: GPL-2.0-or-later
"""Which memory does a process have, on which pages is it, and could it be on huge ones?

peak_sampler.PeakSampler    samples a program's memory while it runs
peak.PeakMemory             what it had at its peak, and what of it was on huge pages
process.look, run_program   the memory of a process, area by area (`tlbcost maps`)
eligibility.stand           why a mapping is on the pages it is on
smaps.read, smaps.parse     /proc/PID/smaps
frames.isolated_pages       how scattered this kernel's page frames are
"""
