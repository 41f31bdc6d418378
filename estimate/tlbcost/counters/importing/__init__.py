# SPDX-License-Identifier: GPL-2.0-or-later
"""What did another tool count, perhaps on another machine?

file.import_file
"""
