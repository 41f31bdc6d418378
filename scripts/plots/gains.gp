# SPDX-License-Identifier: GPL-2.0-or-later
# How large is each gain, and is it above the least that is wanted?  A forest plot, a line for each,
# from the top.
#
# Given by the caller: rows (file: number, label, gain, and the ends of its interval, in percent), count
# (lines), least (percent), whole (what the
# percents are of), columns (characters of the longest label), output (file),
# terminal_name (pngcairo or svg).
set terminal terminal_name size 720,(80 + 28 * count) noenhanced font "sans,12" background rgb "white"
set output output
set encoding utf8
set datafile separator tab
set datafile missing "NA"
set datafile columnheaders

# The lines at 0 and at the least are in it.
set xrange [*<0:(least + 0)<*]
set grid xtics lt 1 lc rgb "#d8d8d8"
set xlabel "gain, percent of the " . whole
set xtics nomirror
set ytics nomirror
set yrange [count + 0.5:0.5]
set lmargin columns + 2
set rmargin 4
set offsets graph 0.02, graph 0.02, 0, 0
set arrow from first least + 0, graph 0 to first least + 0, graph 1 nohead dt 2 lw 1.5 lc rgb "#c04000"
set arrow from first 0, graph 0 to first 0, graph 1 nohead lc rgb "#606060"
plot rows using "gain":"number":"low":"high":yticlabels(stringcolumn("label")) with xerrorbars pt 7 ps 0.8 lw 2 lc rgb "#0060ad" notitle
set output
