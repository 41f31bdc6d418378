# SPDX-License-Identifier: GPL-2.0-or-later
# When does a program pay for translation, and where, and how long do its page faults take?
# Draws its page walks over its references, below what the modelled core took in windows, on base and
# on huge pages, then the gain of its best places, and the slowest page faults.
#
# Given by the caller: for each panel NAME a file NAME with a heading, and has_NAME (0: it has no
# rows): phases (start in millions of references; walks in a thousand references on base and on huge
# pages), windows (middle in millions of references; modelled cycles per reference on both), places
# (number of places of 2 MiB, those first that save most for the memory they add; their part of the
# gain in percent; MiB added), faults (one in `one_in` takes this long, in us, a column for each kind;
# NA: of another kind); output (file), terminal_name (pngcairo or svg), title_words, base_words and
# huge_words (the page sizes), last (end of the run, in millions), knee (places with three quarters of
# the gain).
# Where both sizes cost the same, a dot in a ring and a thin line on a wide one show both.
panels = has_phases + has_windows + has_places + has_faults
set terminal terminal_name size 800,(80 + 240 * panels) enhanced font "sans,11" background rgb "white"
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
set xrange [0:last > 0 ? last + 0 : 1]
set yrange [0:*]
set lmargin 10
set rmargin 4
set key above right horizontal samplen 2 font "sans,10"
set style fill solid 0.25 noborder
set multiplot layout panels,1 title title_words noenhanced font "sans,13"

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
if (has_faults) {
	unset arrow
	unset y2label
	unset y2tics
	set ytics nomirror font "sans,10"
	set rmargin 4
	set logscale xy
	set format x "%.0f"
	set format y "%g"
	set ylabel "page fault, µs"
	set xlabel "the slowest one in"
	set xrange [2:*]
	set yrange [*:*]
	plot \
		faults using "one_in":"base" with linespoints pt 6 dt 2 lc rgb base title "this host, base pages", \
		faults using "one_in":"huge" with linespoints pt 6 dt 2 lc rgb huge title "huge pages", \
		faults using "one_in":"program_base" with linespoints pt 7 lw 2 lc rgb base title "the program, base pages", \
		faults using "one_in":"program_huge" with linespoints pt 7 lw 2 lc rgb huge title "huge pages"
}
unset multiplot
set output
