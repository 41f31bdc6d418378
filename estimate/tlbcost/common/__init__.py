# SPDX-License-Identifier: GPL-2.0-or-later
"""What does every room need: errors, tables, documents, reports, figures?

errors.TlbcostError            a failure that a user can do something about, and its exit code
reading.read_file              a file that a user names, within bounds
formats.read_table             the format of doc/format.md, and the columns of each table
document.Part, doc, to_json    a document for programs and its schema
output.write, check_writable   a file whole or not at all; give_report
files.place_of, new_file       a file where others may write; temporary_folder, lock_file
console.print_whole            tables for people
units.Interval                 a value and its bounds; figures for people
gnuplot.draw_by                figures
sudo.calling_user              the user who called sudo
cleanup.until_stopped          what is undone however a command ends
progress.Progress              one line on a terminal while something runs
paths.libexec, data            where our own programs and data are
bootstrap.median               medians with their intervals
"""
