# SPDX-License-Identifier: GPL-2.0-or-later
"""What do huge pages do on this host now (`tlbcost top`)?

watch.once     everything, read once: a document for programs
watch.watch    again and again, within a budget of CPU time
"""
