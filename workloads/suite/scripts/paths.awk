# SPDX-License-Identifier: GPL-2.0-or-later
# Which way did visitors go through the pages of a log? The pages of each visitor are joined to one
# string, which grows with each line; in the end it is split, and each pair of a page and the one
# after it is counted in a hash table. The log has visitors, pages, statuses and milliseconds.

BEGIN {
	if (ARGV[ARGC - 1] == "--help") {
		print "usage: awk [-v most=N] -f paths.awk LOG"
		print "  most  lines of the log to read (all)"
		done = 1
		exit 0
	}
}

most && NR > most { exit 0 }

$3 == 200 { path[$1] = path[$1] " " $2 }

END {
	# After an exit, too.
	if (done)
		exit 0
	for (visitor in path) {
		n = split(path[visitor], pages, " ")
		for (i = 2; i <= n; i++)
			pairs[pages[i - 1] " " pages[i]]++
		first[pages[1]]++
		last[pages[n]]++
	}
	# Squares, so that it matters what was counted together; of each page the part after the last /.
	for (pair in pairs) {
		split(pair, pages, " ")
		sum += pairs[pair] ^ 2 * (substr(pages[1], 7) % 1009 + 3 * (substr(pages[2], 7) % 1013))
	}
	for (page in first)
		sum += 5 * first[page] ^ 2 + length(page)
	for (page in last)
		sum += 7 * last[page] ^ 2
	# Numbers are doubles; an older mawk has no %x of more than 32 bits.
	printf "checksum %08x%08x\n", int(sum / 2 ^ 32), sum % 2 ^ 32
}
