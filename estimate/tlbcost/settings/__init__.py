# SPDX-License-Identifier: GPL-2.0-or-later
"""How are the system's settings changed so that they are restored, whatever happens?

change.system_settings the right to change settings, which are restored on leaving
journal.undisturbed      keeps every other tlbcost from changing any
journal.read_journal what tlbcost changed and has not restored yet
pool.reserve             `tlbcost pool`: fills a pool; pool.restore and pool.print_status
"""
