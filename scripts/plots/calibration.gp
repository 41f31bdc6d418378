# SPDX-License-Identifier: GPL-2.0-or-later
# What does translation cost per access, over the footprint?  Draws a `curve` table.
#
# Given by the caller: curve (file), output (file), terminal_name (pngcairo or svg), base and huge
# (page sizes in bytes; huge is 0 if there are none), base_words and huge_words (as people write
# them), machine (title), and dtlb and stlb (entries for base pages; 0 if not known).
set terminal terminal_name size 800,560 enhanced font "sans,11" background rgb "white"
set output output
set datafile separator tab
set datafile missing "NA"
set datafile commentschars "#"
set datafile columnheaders

set title machine noenhanced
set logscale x 2
set logscale y 10
set xlabel "footprint (pages, one cache line in each)"
set ylabel "translation time per access (ns)"
set xrange [8:524288]
# Below this the clock's noise is larger than the difference; such points lie on the edge.
least = 0.1
set yrange [least:1000]
set format x "2^{%L}"
set ytics ("0.1 or less" 0.1, "1" 1, "10" 10, "100" 100, "1000" 1000)
set mytics 10
set x2label sprintf("reach in %s pages", base_words)
set logscale x2 2
set x2range [8*base:524288.0*base]
set x2tics ("256 KiB" 2**18, "1 MiB" 2**20, "4 MiB" 2**22, "16 MiB" 2**24, "64 MiB" 2**26, "256 MiB" 2**28, "1 GiB" 2**30)
set xtics nomirror
set grid ytics xtics lc rgb "#dddddd"
set key top left Left reverse spacing 1.2 opaque

if (dtlb > 0) {
	set arrow from dtlb, graph 0 to dtlb, graph 1 nohead dashtype 2 lc rgb "#555555"
	set label sprintf("L1 dTLB\n%d entries", dtlb) at dtlb, graph 0.30 right offset -0.6,0 font "sans,10"
}
if (stlb > 0) {
	set arrow from stlb, graph 0 to stlb, graph 1 nohead dashtype 2 lc rgb "#555555"
	set label sprintf("STLB\n%d entries", stlb) at stlb, graph 0.12 left offset 1.2,0 font "sans,10"
}

is(size, kind, order) = column("page_size_bytes") == size && strcol("layout") eq kind && strcol("access") eq order
at(size, kind, order) = is(size, kind, order) ? column("pages") : NaN
above(name) = column(name) > least ? column(name) : least

plot \
	curve using (at(base, "spread", "serial")):(above("delta_ns")):(above("low_ns")):(above("high_ns")) \
		with yerrorlines lw 2 pt 7 ps 0.6 lc rgb "#0060ad" title base_words." pages, serial", \
	curve using (at(base, "spread", "overlapped")):(above("delta_ns")):(above("low_ns")):(above("high_ns")) \
		with yerrorlines lw 1 pt 6 ps 0.6 lc rgb "#0060ad" title base_words." pages, overlapped", \
	(huge ? curve : "/dev/null") using (at(huge, "spread", "serial")):(above("delta_ns")):(above("low_ns")):(above("high_ns")) \
		with yerrorlines lw 2 pt 9 ps 0.7 lc rgb "#c04000" title huge ? huge_words." pages, serial" : "", \
	(huge ? curve : "/dev/null") using (at(huge, "dense", "serial")):(above("delta_ns")):(above("low_ns")):(above("high_ns")) \
		with yerrorlines lw 1 pt 5 ps 0.6 lc rgb "#e0a000" title huge ? base_words." apart in ".huge_words." pages, serial" : ""
set output
