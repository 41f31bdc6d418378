# SPDX-License-Identifier: GPL-2.0-or-later
"""How bad, and how good, are larger pages on this machine for known access patterns?

runner.measure             runs the patterns on pages of several sizes in turn
document.document_of the results: `tlbcost pagesizes --json`
report.print_page_sizes    the same for people
figure.draw_page_sizes     and as a figure
published.published published figures of the same patterns
"""
