# SPDX-License-Identifier: GPL-2.0-or-later
"""What does an estimate say to people? Read from its document, so that a saved one reads the same.

text.print_report            the report of `tlbcost estimate` and `tlbcost show`
saved.read_estimate          a document that was saved
comparison.compared          two of them, side by side
condition.parse_condition    a condition over their keys, for --fail-if
lines                        text in lines, for reports of other rooms too
"""
