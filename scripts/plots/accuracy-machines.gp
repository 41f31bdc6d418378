# SPDX-License-Identifier: GPL-2.0-or-later
# Do predictions for other machines agree with published figures?  Predicted over published, with
# the intervals, in two panels: time ratios, and cycles of a read.
#
# Given by the caller: ratios, cycles (files: published, predicted, low, high), output (file),
# terminal_name (pngcairo or svg).
set terminal terminal_name size 900,440 enhanced font "sans,11" background rgb "white"
set output output
set datafile separator tab
set datafile columnheaders
set multiplot layout 1,2
set grid lt 1 lc rgb "#d8d8d8"
set logscale xy
set key off
set xlabel "published"
set ylabel "predicted"
set title "time over that on 4 KiB pages" font "sans,11"
set xrange [0.1:10]
set yrange [0.1:10]
plot x lc rgb "#808080" lw 1, \
	ratios using 1:2:3:4 with yerrorbars pt 7 ps 0.8 lw 1.3 lc rgb "#0060ad"
set title "cycles of a read that waits for the one before" font "sans,11"
set xrange [3:1000]
set yrange [3:1000]
plot x lc rgb "#808080" lw 1, \
	cycles using 1:2:3:4 with yerrorbars pt 7 ps 0.8 lw 1.3 lc rgb "#c04000"
unset multiplot
