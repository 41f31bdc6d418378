# SPDX-License-Identifier: GPL-2.0-or-later
"""What does translation cost a program, what would huge pages give, and what is to be done?

estimate.estimate            the whole way, from a request.EstimateRequest to a record.Estimate
estimate.conclude            the same from evidence that is there already
text.print_report            the estimate for people
document.to_json             the estimate for programs
caveats.rules.caveats        what to know before relying on it
"""
