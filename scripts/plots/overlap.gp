# SPDX-License-Identifier: GPL-2.0-or-later
# Does the model overlap what the machine overlaps?  Draws the time of a step over the number of
# chains side by side, one panel for each footprint: measured points, modelled lines.
#
# Given by the caller: overlap (file: an `overlap` table of chases), output (file), terminal_name
# (pngcairo or svg), title_words, footprints (words: pages, four at most), least and most (ends of
# the axis of time, ns).
set terminal terminal_name size 800,760 enhanced font "sans,11" background rgb "white"
set output output
set encoding utf8
set datafile separator tab
set datafile missing "NA"
set datafile commentschars "#"
set datafile columnheaders
set multiplot layout 2,2 title title_words noenhanced font "sans,13"

set grid xtics ytics lt 1 lc rgb "#d8d8d8"
set logscale x 2
set logscale y 10
set xtics nomirror font "sans,10" (1, 2, 4, 8, 16)
set ytics nomirror font "sans,10" (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
set xrange [0.85:19]
set yrange [least + 0:most + 0]
set xlabel "chains side by side"
set ylabel "ns per step"
# In the first panel, whose steps are the shortest, above them.
set key at graph 0.97, graph 0.97 right top Left reverse samplen 2 font "sans,10" opaque

base = "#0060ad"
huge = "#c04000"
# The points of the two sizes next to each other, so that neither hides the other.
aside = 1.03
do for [pages in footprints] {
	here(name) = column("pages") == pages + 0 ? column(name) : NaN
	set title sprintf("%s pages", pages) font "sans,11"
	plot \
		overlap using "chains":(here("modelled_base_ns")) with lines lw 2 lc rgb base title "4 KiB, modelled", \
		overlap using "chains":(here("modelled_huge_ns")) with lines lw 2 lc rgb huge title "2 MiB, modelled", \
		overlap using (column("chains") / aside):(here("base_ns")):(here("base_low_ns")):(here("base_high_ns")) \
			with yerrorbars pt 7 ps 0.9 lw 1.5 lc rgb base title "4 KiB, measured", \
		overlap using (column("chains") * aside):(here("huge_ns")):(here("huge_low_ns")):(here("huge_high_ns")) \
			with yerrorbars pt 5 ps 0.9 lw 1.5 lc rgb huge title "2 MiB, measured"
	unset key
}
unset multiplot
set output
