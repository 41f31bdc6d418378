# SPDX-License-Identifier: GPL-2.0-or-later
"""What do huge pages do to the placement of a program's memory on NUMA nodes?

runs.study_placement          `tlbcost numa`: a study of one program
runs.node_placement what an estimate says about it
placement.choose_nodes        the nodes that placements are for
locality.placement_direction  whether a page size makes a program slower or faster
report.print_study            the report; study.Study is the document for programs
"""
