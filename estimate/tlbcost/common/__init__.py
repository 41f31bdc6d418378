# SPDX-License-Identifier: GPL-2.0-or-later
"""What does every room need: errors, tables, documents, reports, figures?

errors.TlbcostError            a failure that a user can do something about, and its exit code
interval.Interval              a value and its bounds
reading.read_file              a file that a user names, within bounds
table.read_table               the format of doc/format.md; formats has the columns of each table
document.Part, doc, to_json    a document for programs and its schema
output.write, check_writable   a file whole or not at all; give_report
files.place_of, new_file       a file where others may write; lock_file
console.print_whole            tables for people; units has figures for people
gnuplot.draw_by                figures
temporary.temporary_folder     a run's own files, removed even after SIGKILL
sudo.calling_user              the user who called sudo
cleanup.until_stopped          what is undone however a command ends
progress.Progress              one line on a terminal while something runs
paths.libexec, data            where our own programs and data are
bootstrap.median               medians with their intervals; stats has what needs no numpy
"""
