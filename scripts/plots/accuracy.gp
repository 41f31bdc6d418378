# SPDX-License-Identifier: GPL-2.0-or-later
# How far were predictions from what huge pages gave?  A row for each program, so that programs with
# similar gains do not hide each other: the gain measured, below it the one predicted, both with their
# intervals, and the bound.
#
# Given by the caller: checks (file: number of the row, expected value, low and high, measured value,
# low and high, bound, and what a model expected where something else was reported; shares in
# percent), other_words (which model), output (file), terminal_name (pngcairo or svg), title_words, names (words: the programs in
# the order of their rows), least and most (ends of the axis, percent; bounds may lie beyond).
rows = words(names)
set terminal terminal_name size 800,(150 + 22 * rows) enhanced font "sans,11" background rgb "white"
set output output
set encoding utf8
set datafile separator tab
set datafile missing "NA"
set datafile commentschars "#"
set datafile columnheaders
set title title_words noenhanced font "sans,13"

set grid xtics lt 1 lc rgb "#d8d8d8"
set xtics nomirror font "sans,10"
set xlabel "share of the base run time (%)"
set xrange [least:most]
set yrange [rows + 0.6:0.4]
set ytics scale 0 font "sans,10"
set ytics ("" 1)
do for [i = 1:rows] {
	set ytics add (word(names, i) i) noenhanced
	if (i > 1) { set arrow i from graph 0, first i - 0.5 to graph 1, first i - 0.5 nohead lc rgb "#e8e8e8" lw 1 }
}
set bmargin 6.5
set key bmargin center horizontal Left reverse samplen 2 font "sans,10" maxrows 2
# What lies beyond the axis is drawn at its end.
within(percent) = percent > most ? most : percent
measured(row) = row - 0.17
predicted(row) = row + 0.17
plot \
	checks using "measured":(measured(column("number"))):"measured_low":"measured_high" \
		with xerrorbars pt 7 ps 0.7 lw 1.4 lc rgb "#c04000" title "trial: user time saved", \
	checks using "expected":(predicted(column("number"))):"low":"high" \
		with xerrorbars pt 7 ps 0.7 lw 1.4 lc rgb "#0060ad" title "estimated", \
	checks using (within(column("other"))):(predicted(column("number"))) \
		with points pt 8 ps 1.1 lw 1.2 lc rgb "#6090c0" title other_words, \
	checks using (within(column("bound"))):(predicted(column("number"))) \
		with points pt 6 ps 1.1 lw 1.2 lc rgb "#909090" title "bound (at the edge: beyond)"
set output
