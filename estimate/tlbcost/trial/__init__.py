# SPDX-License-Identifier: GPL-2.0-or-later
"""How much faster is a program on huge pages, once it is proven to have them?

session.run_trials         `tlbcost trial`: one program by several methods, with its estimate
runs.run_trial             one method: pairs of runs, compared
record.program_of          a trial as part of a record of predictions
catalog.named              a way to give a program huge pages, by its name
method.drop_huge_page_requests  takes what asks for huge pages out of our environment
report.print_trials        the report; document.trial_document is the document for programs
"""
