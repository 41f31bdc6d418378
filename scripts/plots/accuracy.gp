# SPDX-License-Identifier: GPL-2.0-or-later
# How far were predictions from what huge pages gave?  Draws the expected gain of each program
# against the gain measured, both with their intervals, and where both would be equal.
#
# Given by the caller: checks (file: name, number, expected value, low and high, measured value, low
# and high, bound, and what the simple model expected where another one told; shares in percent),
# output (file), terminal_name (pngcairo or svg), title_words, numbers and names (words: the programs
# in the order of their numbers), least and most (ends of both axes, percent; bounds may lie beyond).
set terminal terminal_name size 800,600 enhanced font "sans,11" background rgb "white"
set output output
set encoding utf8
set datafile separator tab
set datafile missing "NA"
set datafile commentschars "#"
set datafile columnheaders
set title title_words noenhanced font "sans,13"

set grid xtics ytics lt 1 lc rgb "#d8d8d8"
set xtics nomirror font "sans,10"
set ytics nomirror font "sans,10"
set xlabel "predicted: expected gain, and bound (% of the base run time)"
set ylabel "measured: user time saved (% of the base run time)"
set xrange [least:most]
set yrange [least:most]
set rmargin 24
set lmargin 9
set key at graph 0.03, graph 0.97 left top Left reverse samplen 2 font "sans,10" opaque

# Labels in the plot would overlap where gains are similar: numbers, and a list of names.
step = words(names) > 19 ? 0.97 / words(names) : 0.05
do for [i = 1:words(names)] {
	set label i sprintf("%s  %s", word(numbers, i), word(names, i)) at graph 1.03, graph 1.0 - step * i \
		left font "sans,10" noenhanced
}
# What lies beyond the axes is drawn at their ends.
within(percent) = percent > most ? most : percent
plot \
	[least:most] x with lines lw 1.5 dt 2 lc rgb "#606060" title "predicted = measured", \
	checks using (within(column("bound"))):"measured" with points pt 6 ps 0.7 lc rgb "#b0b0b0" \
		title "bound (at the edge: beyond)", \
	checks using (within(column("simple"))):"measured" with points pt 8 ps 0.8 lc rgb "#80a0c0" \
		title "expected by the simple model (likewise)", \
	checks using "expected":"measured":"low":"high":"measured_low":"measured_high" \
		with xyerrorbars pt 7 ps 0.6 lw 1 lc rgb "#0060ad" title "expected gain, with its interval", \
	checks using "expected":"measured":"number" with labels offset 0.9,0.6 font "sans,9" \
		tc rgb "#c04000" notitle
set output
