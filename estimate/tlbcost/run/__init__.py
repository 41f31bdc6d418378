# SPDX-License-Identifier: GPL-2.0-or-later
"""How is a program run several times so that each run sees the same, and nothing is left behind?

program.resolve         which file a command starts, and whether it can be started and simulated
launch.launcher_of      runs a program; native_runs runs it several times
outcome.Outcome, Run    how a run ended, and what it cost
process_tree.end        ends a program with all that it started
stdin.ProgramInput      gives every run the same standard input
"""
