# SPDX-License-Identifier: GPL-2.0-or-later
# How bad, and how good, are larger pages?  Draws for each access pattern the time on each page size
# over that on base pages, with its interval, and what others published.
#
# Given by the caller: ratios (file: pattern, position, and ratio, low, high and published for each
# size: ratio_1, low_1, ...), output (file), terminal_name (pngcairo or svg), title_words, base_words,
# size_words (words: the sizes), names (words: the patterns in the order of their positions), least and
# most (ends of the vertical axis).
set terminal terminal_name size 900,560 enhanced font "sans,11" background rgb "white"
set output output
set encoding utf8
set datafile separator tab
set datafile missing "NA"
set datafile commentschars "#"
set datafile columnheaders
set title title_words . "\nfull: measured here; hollow: as published, of other processors" noenhanced font "sans,12"

sizes = words(size_words)
patterns = words(names)
colour(i) = word("#c04000 #0060ad #2e8b57 #8a4fbf #b8860b #00868b #8b5a2b #d6498f #606060 #4060ff", i)
# Next to each other around the pattern's position.
shift(i) = (i - (sizes + 1) / 2.0) * 0.7 / sizes

set logscale y 2
set yrange [least:most]
set xrange [0.5:patterns + 0.5]
set ytics nomirror font "sans,10" ("1/16" 0.0625, "1/8" 0.125, "1/4" 0.25, "1/2" 0.5, "1" 1, "2" 2, "4" 4, "8" 8, "16" 16)
set grid ytics lt 1 lc rgb "#d8d8d8"
set ylabel "time over that on " . base_words . " pages"
unset xtics
do for [i = 1:patterns] {
	set label i word(names, i) at i, graph -0.02 rotate by 30 right font "sans,10" noenhanced
	if (i > 1) { set arrow i from i - 0.5, graph 0 to i - 0.5, graph 1 nohead lc rgb "#e8e8e8" lw 1 }
}
set bmargin 7.5
set lmargin 11
set key above horizontal samplen 1 font "sans,10" noenhanced maxrows 2
plot 1 with lines lw 1.5 lc rgb "#404040" notitle, \
	for [i = 1:sizes] ratios using (column("position") + shift(i)):(column("ratio_" . i)):(column("low_" . i)):(column("high_" . i)) \
		with yerrorbars pt 7 ps 0.8 lw 1.4 lc rgb colour(i) title word(size_words, i), \
	for [i = 1:sizes] ratios using (column("position") + shift(i)):(column("published_" . i)) \
		with points pt 6 ps 1.3 lw 1.4 lc rgb colour(i) notitle
set output
