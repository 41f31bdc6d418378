# SPDX-License-Identifier: GPL-2.0-or-later
"""`tlbcost numa --watch`: what do pages of a running process need, and how is that done?

thresholds.Thresholds  from which figures on something is done, and their sources
evidence.Evidence      samples of the process's accesses, and where its pages are
decide.decide          actions, from these
feedback.Feedback      which actions are tried, taken back, and left alone
session.Session        the loop
"""
