# SPDX-License-Identifier: GPL-2.0-or-later
"""What does translation cost a program, what would huge pages give, and what is to be done?

estimate.estimate            the whole way, from a request.EstimateRequest to a record.Estimate
estimate.conclude            the same from evidence that is there already
document.estimate_document   the estimate for programs; room report has it for people
caveats.rules.caveats        what to know before relying on it
"""
