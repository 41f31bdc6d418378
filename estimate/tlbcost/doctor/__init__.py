# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be measured here, and which commands enable the rest?

examination.examine one check for each thing that tlbcost uses
check.text_of          the findings for people
"""
