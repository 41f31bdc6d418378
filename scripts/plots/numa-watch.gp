# SPDX-License-Identifier: GPL-2.0-or-later
# What did a watch of a process's pages see and do?  Draws the share of local accesses and the
# imbalance of the nodes over time, with a line for each action; and below, memory on huge pages.
#
# Given by the caller: intervals (file: seconds; local accesses, those with pages moved, with huge
# pages split first, and imbalance, all in percent; MiB on huge pages), actions (file: seconds, its
# number and its words), has_actions (0: none), output (file), terminal_name (pngcairo or svg),
# title_words, last (end of the watch, in seconds), most (of the percent), huge_step
# (MiB).
set terminal terminal_name size 800,560 enhanced font "sans,11" background rgb "white"
set output output
set encoding utf8
set datafile separator tab
set datafile missing "NA"
set datafile columnheaders

local = "#0060ad"
uneven = "#c04000"
set grid xtics ytics lt 1 lc rgb "#d8d8d8"
set xtics nomirror font "sans,10"
set ytics nomirror font "sans,10"
set xrange [0:last + 0]
set lmargin 10
set rmargin 4
set key above right horizontal samplen 2 font "sans,10" maxrows 2
set multiplot title title_words noenhanced font "sans,13"

top = most + 0
set size 1,0.66
set origin 0,0.29
set ylabel "percent"
set yrange [0:top]
plot \
	(has_actions ? actions : intervals) using (has_actions ? column(1) : NaN):(0):(0):(top) \
		with vectors nohead dt 2 lw 1 lc rgb "#404040" notitle, \
	(has_actions ? actions : intervals) using (has_actions ? column(1) : NaN):(0.98 * top):3 \
		with labels rotate by 90 right offset -0.7,0 font "sans,9" noenhanced notitle, \
	intervals using "at":"split" with lines dt 3 lw 1.5 lc rgb local title "local if split", \
	intervals using "at":"moved" with lines dt 2 lw 1.5 lc rgb local title "local if moved", \
	intervals using "at":"local" with linespoints pt 7 ps 0.5 lw 2 lc rgb local \
		title "local accesses", \
	intervals using "at":"imbalance" with linespoints pt 5 ps 0.5 lw 2 lc rgb uneven \
		title "imbalance"

set size 1,0.31
set origin 0,0
set ylabel "MiB on huge pages"
set xlabel "seconds"
set yrange [0:*]
set offsets 0,0,graph 0.1,0
set ytics huge_step + 0
plot intervals using "at":"huge" with steps lw 2 lc rgb "#404040" notitle
unset multiplot
set output
