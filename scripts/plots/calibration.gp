# SPDX-License-Identifier: GPL-2.0-or-later
# What does translation cost, and what do the caches?  Draws a `curve` and a `calibration` table:
# translation time over footprint (if there is a curve), cost of page walks over footprint and, if
# they were measured, latency of the data caches over footprint.
#
# Given by the caller: curve and calibration (files), output (file), terminal_name (pngcairo or
# svg), title_words, base and huge (page sizes in bytes; huge 0: none), sizes and size_words (all
# page sizes of the curve, in bytes and as people write them), walk_sizes and walk_words (the same
# of those whose walks were measured), chains (how many at once), last_page (end of the axis of
# pages), caches (1: draw them), line (bytes of a cache line), cache_last (end of the axis of bytes),
# and marks as lists of words: knee_at (pages) and knee_labels, table_at (pages) and table_labels,
# cache_at (bytes) and cache_labels.
panels = 1 + (words(sizes) > 0) + caches
height = 500
set terminal terminal_name size 800,panels*height enhanced font "sans,11" background rgb "white"
set output output
set datafile separator tab
set datafile missing "NA"
set datafile commentschars "#"
set datafile columnheaders
set multiplot layout panels,1 title title_words noenhanced font "sans,13"

array colours[10] = ["#0060ad", "#c04000", "#208020", "#8040a0", "#b08000", "#008888", "#c03080", \
	"#606060", "#a06030", "#4060e0"]
colour(i) = colours[1 + (i - 1) % 10]
points(i) = 4 + (2 * i + 1) % 12
mark(i, at, words) = sprintf("set arrow %d from %g, graph 0 to %g, graph 1 nohead dashtype 2 lc rgb '#555555'; ".\
	"set label %d \"%s\" at %g, graph 0.98 rotate by 90 right offset -0.9,0 font 'sans,9' ".\
	"tc rgb '#333333'", i, at, at, i, words, at)

set encoding utf8
set lmargin 11
set rmargin 4
set tmargin 3.6
set grid xtics ytics lt 1 lc rgb "#d8d8d8"
# The key is below its panel, in three columns, and takes the room that it needs.
rows(n) = ceil(n / 3.0)
key(n) = sprintf("set bmargin %g; set key bmargin center vertical Left reverse maxrows %d width 1 samplen 2 ".\
	"font 'sans,10'", 4.2 + 1.05 * rows(n), rows(n))
set xtics nomirror font "sans,10"
set ytics nomirror

# Below this the clock's noise is larger than a difference; such points lie on the edge.
least = 0.1
above(name) = column(name) > least ? column(name) : least
row(probe, size, layout, access) = strcol("probe") eq probe && column("page_size_bytes") == size \
	&& strcol("layout") eq layout && strcol("access") eq access
pages(size, layout, access) = row("tlb", size, layout, access) ? column("lines") : NaN

# 1. Translation time over footprint.
eval key(words(sizes) + 1 + (huge > 0))
set logscale x 2
set logscale y 10
set xlabel "footprint (pages, one cache line in each)"
set ylabel "translation time per access (ns)"
first_page = 4
set xrange [first_page:last_page]
# Room for labels above the curves.
set yrange [least:5000]
set xtics ("4" 4, "16" 16, "64" 64, "256" 256, "1024" 1024, "4096" 4096, "16384" 16384, \
	"65536" 65536, "262144" 262144, "1048576" 1048576, "4194304" 4194304, "16777216" 16777216)
set ytics ("≤ 0.1" 0.1, "1" 1, "10" 10, "100" 100, "1000" 1000)
set x2label sprintf("reach in %s pages", words(sizes) ? word(size_words, 1) : "") offset 0,-0.6
set logscale x2 2
set x2range [first_page*base:real(last_page)*base]
set x2tics ("64 KiB" 2.0**16, "256 KiB" 2.0**18, "1 MiB" 2.0**20, "4 MiB" 2.0**22, "16 MiB" 2.0**24, \
	"64 MiB" 2.0**26, "256 MiB" 2.0**28, "1 GiB" 2.0**30, "4 GiB" 2.0**32, "16 GiB" 2.0**34) font "sans,9"
if (words(sizes)) {
	do for [i = 1:words(knee_at)] {
		eval mark(i, real(word(knee_at, i)), word(knee_labels, i))
	}
	plot \
		for [i = 1:words(sizes)] curve \
			using (pages(real(word(sizes, i)), "spread", "serial")):(above("ns")):(above("low_ns")):(above("high_ns")) \
			with yerrorlines lw 2 pt points(i) ps 0.6 lc rgb colour(i) title word(size_words, i).", serial", \
		curve using (pages(base, "spread", "overlapped")):(above("ns")):(above("low_ns")):(above("high_ns")) \
			with yerrorlines lw 1 dt 3 pt 6 ps 0.5 lc rgb colour(1) title word(size_words, 1).", overlapped", \
		(huge ? curve : "/dev/null") \
			using (pages(huge, "dense", "serial")):(above("ns")):(above("low_ns")):(above("high_ns")) \
			with yerrorlines lw 1 pt 5 ps 0.5 lc rgb "#e0a000" \
			title huge ? sprintf("%s in %s pages, serial", word(size_words, 1), huge_words) : ""
	unset arrow
	unset label
}

# 2. Cost of a walk over footprint.
walk(size, access) = strcol("quantity") eq "walk_ns" && column("page_size_bytes") == size \
	&& strcol("access") eq access ? column("pages") : NaN
eval key(words(walk_sizes) + 1 + words(chains))
set xrange [1024:last_page]
set yrange [0.5:1000]
set xlabel "footprint (TLB entries needed)"
set ylabel "cost of a page walk (ns)"
set ytics ("0.5" 0.5, "1" 1, "2" 2, "5" 5, "10" 10, "20" 20, "50" 50, "100" 100, "200" 200, "500" 500, "1000" 1000)
set x2label "page-table entries of these pages, 8 bytes each, and the caches that they fill" offset 0,-0.6
set x2range [8*1024:8.0*last_page]
set x2tics ("8 KiB" 2.0**13, "32 KiB" 2.0**15, "128 KiB" 2.0**17, "512 KiB" 2.0**19, "2 MiB" 2.0**21, \
	"8 MiB" 2.0**23, "32 MiB" 2.0**25) font "sans,9"
do for [i = 1:words(table_at)] {
	eval mark(i, real(word(table_at, i)), word(table_labels, i))
}
if (words(walk_sizes)) {
	plot \
		for [i = 1:words(walk_sizes)] calibration \
			using (walk(real(word(walk_sizes, i)), "serial")):"value":"low":"high" \
			with yerrorlines lw 2 pt points(i) ps 0.7 lc rgb colour(i) title word(walk_words, i).", serial", \
		calibration using (walk(base, "overlapped")):"value":"low":"high" \
			with yerrorlines lw 1 dt 3 pt 6 ps 0.6 lc rgb colour(1) title word(walk_words, 1).", overlapped", \
		for [i = 1:words(chains)] calibration \
			using (walk(base, "chains_".word(chains, i))):"value":"low":"high" \
			with yerrorlines lw 1 pt 2 * i ps 0.7 lc rgb colour(3 + i) title word(chains, i)." chains at once"
} else {
	set label 99 "NA: no walk's cost was obtained" at graph 0.5, graph 0.5 center
	plot NaN notitle
}
unset arrow
unset label

# 3. Latency of the data caches over footprint.
if (caches) {
	cache(layout) = strcol("probe") eq "cache" && strcol("layout") eq layout \
		? column("lines") * line : NaN
	set xrange [4096:cache_last]
	set yrange [0.5:1000]
	set xlabel "footprint (bytes of the cache lines in use)"
	set ylabel "load-to-use latency (ns)"
	set xtics ("4 KiB" 2.0**12, "16 KiB" 2.0**14, "64 KiB" 2.0**16, "256 KiB" 2.0**18, "1 MiB" 2.0**20, \
		"4 MiB" 2.0**22, "16 MiB" 2.0**24, "64 MiB" 2.0**26, "256 MiB" 2.0**28, "1 GiB" 2.0**30)
	eval key(2)
	unset x2tics
	unset x2label
	set tmargin 2
	do for [i = 1:words(cache_at)] {
		eval mark(i, real(word(cache_at, i)), word(cache_labels, i))
	}
	plot \
		curve using (cache("each")):"ns":"low_ns":"high_ns" \
			with yerrorlines lw 1 pt 6 ps 0.6 lc rgb colour(1) title "every line", \
		curve using (cache("third")):"ns":"low_ns":"high_ns" \
			with yerrorlines lw 2 pt 7 ps 0.6 lc rgb colour(2) title "every third line (fewer prefetched)"
}
unset multiplot
set output
