# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be done about page walks on this system, by memory region, and what does it cost?

advice.advise          what to do about each region; advice.Advice is one answer
situation.Situation    the program and the system that it is for
document.advice_part   the advice, for programs
"""
