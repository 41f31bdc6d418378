# SPDX-License-Identifier: GPL-2.0-or-later
"""What can be measured here, and what must be typed to fix what cannot?

examination.examine    one check per thing that tlbcost uses
report.text_of         the findings for people
"""
