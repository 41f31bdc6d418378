# SPDX-License-Identifier: GPL-2.0-or-later
# When does a program pay for translation, and where?  Draws its page walks over its references, below
# what the modelled core took in windows, on base and on huge pages, and the gain of its best places.
#
# Given by the caller: has_phases (0: none), phases (file: start in millions of references; walks in a thousand references
# on base and on huge pages), windows (file: middle in millions of references; modelled cycles per
# reference on both), has_windows (0: none), output (file), terminal_name (pngcairo or svg),
# title_words, base_words and huge_words (the page sizes), last (end of the run, in millions), places
# (file: number of places of 2 MiB, those first that save most for the memory they add; their part of
# the gain in percent; MiB added), has_places (0: none), knee (places with three quarters of the gain).
# Where both sizes cost the same, a dot in a ring and a thin line on a wide one show both.
set terminal terminal_name size 800,(80 + 240 * (has_phases + has_windows + has_places)) enhanced font "sans,11" background rgb "white"
set output output
set encoding utf8
set datafile separator tab
set datafile missing "NA"
set datafile commentschars "#"
set datafile columnheaders

base = "#0060ad"
huge = "#c04000"
set grid xtics ytics lt 1 lc rgb "#d8d8d8"
set xtics nomirror font "sans,10"
set ytics nomirror font "sans,10"
set xrange [0:last + 0]
set yrange [0:*]
set lmargin 10
set rmargin 4
set key above right horizontal samplen 2 font "sans,10"
set style fill solid 0.25 noborder
set multiplot layout (has_phases + has_windows + has_places),1 title title_words noenhanced font "sans,13"

if (has_phases) {
	set ylabel "walks per 1000 references"
	set xlabel has_windows ? "" : "million references"
	plot \
		phases using "start":"base" with fillsteps fc rgb base notitle, \
		phases using "start":"base" with steps lw 5 lc rgb base title base_words." pages", \
		phases using "start":"huge" with steps lw 1.5 lc rgb huge title huge_words." pages"
}

if (has_windows) {
	set ylabel "modelled cycles per reference"
	set xlabel "million references"
	plot \
		windows using "middle":"base" with points pt 6 ps 1.2 lw 1.5 lc rgb base \
			title base_words." pages", \
		windows using "middle":"huge" with points pt 7 ps 0.5 lc rgb huge title huge_words." pages"
}
if (has_places) {
	set ylabel "part of the gain, %"
	set y2label "MiB added"
	set y2tics font "sans,10"
	set xlabel "places of 2 MiB, best first"
	set xrange [0:*]
	set yrange [0:100]
	set y2range [0:*]
	set rmargin 10
	if (knee > 0) { set arrow from knee, graph 0 to knee, graph 1 nohead dt 3 lc rgb "#606060" }
	plot \
		places using "places":"gain" with lines lw 2 lc rgb huge title "gain", \
		places using "places":"growth" axes x1y2 with lines lw 2 dt 2 lc rgb "#606060" title "memory added"
}
unset multiplot
set output
