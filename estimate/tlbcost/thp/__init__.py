# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a program's memory put on transparent huge pages as it runs, without changing either?

program.run_program    run one whose mappings ask for huge pages as they are made
program.launcher       the words that do so, to be put before a command line
process.ask_process    the same for one that runs already
reached.print_reached  how much of the memory that reached
"""
