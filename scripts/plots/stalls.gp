# SPDX-License-Identifier: GPL-2.0-or-later
# How much of a program's memory came onto huge pages, and how much was predicted, by state of memory?
#
# Given by the caller: shares (file without a head: state, and in percent predicted and what four
# programs got), states (rows), output (file), terminal_name (pngcairo or svg).
set terminal terminal_name size 900,460 noenhanced font "sans,11" background rgb "white"
set output output
set encoding utf8
set datafile separator tab
set title "Memory that came onto huge pages: free and split ones, defrag" font "sans,12"
set ylabel "percent of the program's memory"
set yrange [0:105]
set xrange [0.5:states + 0.5]
set grid ytics lt 1 lc rgb "#d8d8d8"
set ytics nomirror
set xtics nomirror rotate by 30 right font "sans,10"
set bmargin 8
set lmargin 10
set key above horizontal samplen 1
set boxwidth 0.6
plot shares using ($0 + 1):2:xticlabels(stringcolumn(1)) with boxes fs solid 0.25 border lc rgb "#0060ad" lc rgb "#0060ad" title "predicted", \
	for [i = 3:6] shares using ($0 + 1 + (i - 4.5) * 0.1):i with points pt 7 ps 0.9 lc rgb "#c04000" title (i == 3 ? "four runs of three programs" : "")
set output
