# SPDX-License-Identifier: GPL-2.0-or-later
# How often was each page of a log asked for, by how many visitors, and how long did it take? Each
# pair of visitor and page is a string and an entry of a hash table, anywhere on the heap, and the
# last line of each is kept. The log has visitors, pages, statuses and milliseconds.

BEGIN {
	if (ARGV[ARGC - 1] == "--help") {
		print "usage: awk [-v most=N] -f visits.awk LOG"
		print "  most  lines of the log to read (all)"
		done = 1
		exit 0
	}
}

most && NR > most { exit 0 }

$3 == 200 {
	count[$2]++
	took[$2] += $4
	if ($4 > slowest[$2])
		slowest[$2] = $4
	if (!(($1, $2) in last))
		visitors[$2]++
	last[$1, $2] = $0
}

END {
	# After an exit, too.
	if (done)
		exit 0
	# Numbers are doubles; an older mawk has no %x of more than 32 bits.
	for (page in count)
		sum += length(page) * (count[page] + 31 * visitors[page]) + 7 * took[page] + slowest[page]
	for (pair in last)
		sum += length(last[pair])
	printf "checksum %08x%08x\n", int(sum / 2 ^ 32), sum % 2 ^ 32
}
