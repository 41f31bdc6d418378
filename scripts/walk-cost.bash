# SPDX-License-Identifier: GPL-2.0-or-later
# What does a TLB miss that walks the page table cost, by the article's method?
# Sourced by run-calibrator.sh and tlbmiss_cost.sh, never run.
# shellcheck shell=bash
#
# Increasing footprints are measured until three results in a row agree with the one before.  A
# result is the median time by which one access per page, each waiting for the last, exceeds as
# many accesses to adjacent lines: no cache miss is in it.  The footprints are beyond the
# second TLB level of the cores in data/machines by the fourth result at the latest, so the
# results that agree are of the walk, not the second level's latency.

# The article's footprints, for its pages of 4 KiB; as many pages where they are larger.
readonly FIRST_PAGES=3328 STEP_PAGES=960
readonly SIZES=12 MATCHES=3
readonly TOLERANCE_CYCLES=2 TOLERANCE_PERCENT=10
# No footprint is begun after BEGIN_S; the calibrator should end after PROBE_S, and is killed
# after KILL_S.
readonly BEGIN_S=20 PROBE_S=2 KILL_S=6
# shellcheck disable=SC2034  # for --help
readonly BOUND_S=30

probe_pid=""

# Find the calibrator next to us: installed, or where make builds it.
find_probe() { # <folder of the scripts>
	local place
	for place in "$1/../libexec" "$1/../build/libexec"; do
		if [[ -x ${place}/tlbcost-calibrate ]]; then
			probe=${place}/tlbcost-calibrate
			return
		fi
	done
	die "cannot measure: no tlbcost-calibrate in $1/../libexec or $1/../build/libexec" \
		"make"
}

stop_probe() {
	if [[ -n ${probe_pid} ]]; then
		kill "${probe_pid}" 2>/dev/null || true
	fi
}

# However we end, so does the calibrator.
guard() {
	trap stop_probe EXIT
	trap 'note interrupted; exit 130' INT
	trap 'note terminated; exit 143' TERM
	trap 'exit 129' HUP
}

# Run the calibrator; its table is in $samples and the exit code in $probe_code.
# It writes to a pipe: no file can be left behind, and a trap need not wait for it.
run_probe() { # <option>...
	local from
	# shellcheck disable=SC2312  # the status is waited for
	exec {from}< <(exec timeout "${KILL_S}" "${probe}" --output - "$@")
	probe_pid=$!
	IFS= read -r -d '' -u "${from}" samples || true
	exec {from}<&-
	probe_code=0
	wait "${probe_pid}" || probe_code=$?
	probe_pid=""
}

# Conclude from a samples table on standard input: "<ns> <cycles> <MHz>", each NA if missing,
# or the word `garbage`.
conclude() { # <pages>
	awk -F '\t' -v OFMT=%.9g -v pages="$1" '
		function median(a, n, i, j, t) {
			if (!n) return "NA"
			for (i = 2; i <= n; i++) {
				t = a[i]
				for (j = i - 1; j > 0 && a[j] > t; j--) a[j + 1] = a[j]
				a[j + 1] = t
			}
			return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
		}
		NR == 1 { good = $0 == "# tlbcost samples 2"; next }
		/^# end: / { ended = 1 }
		/^#/ { next }
		!names { for (i = 1; i <= NF; i++) at[$i] = i; names = 1; next }
		$at["ns"] == "NA" { next }
		$at["probe"] == "cycles" { cycle[++cycles] = $at["ns"] + 0 }
		$at["probe"] == "tlb" && $at["layout"] == "spread" && $at["access"] == "serial" &&
			$at["lines"] == pages && $at["packed_ns"] != "NA" {
			extra[++n] = $at["ns"] - $at["packed_ns"]
		}
		END {
			if (!good || !ended) { print "garbage"; exit }
			ns = median(extra, n)
			period = median(cycle, cycles)
			clock = period != "NA" && period + 0 > 0
			print(ns, ns != "NA" && clock ? int(ns / period + 0.5) : "NA",
				clock ? int(1000 / period + 0.5) : "NA")
		}'
}

# Why the calibrator skipped a footprint, in its own words.
reason() {
	local line
	line=$(grep -m 1 -E '^# (skipped|limited|dropped)_' <<<"${samples}") || line=""
	printf '%s\n' "${line:+: ${line#*: }}"
}

# Measure one footprint: sets $ns and $cycles; `NA` for what was not obtained.
measure() { # <pages>
	run_probe --measure cycles,near --lines "$1" --sweeps 41 --time-limit "${PROBE_S}"
	ns=NA cycles=NA
	# 124: it was stopped because it did not end: there is no figure for this footprint.
	((probe_code != 124)) || return 0
	# Its message is on standard error already.
	((probe_code == 0)) || exit "${probe_code}"
	local result
	result=$(conclude "$1" <<<"${samples}")
	[[ ${result} != garbage ]] ||
		die "cannot measure: ${probe} wrote no complete samples table" "make"
	read -r ns cycles _ <<<"${result}"
}

# No additional time: that is noise, not a cost.
is_cost() {
	[[ ${cycles} != NA ]] && ((cycles > 0))
}

agree() { # <cycles> <cycles>
	local difference=$(($1 > $2 ? $1 - $2 : $2 - $1))
	((difference <= TOLERANCE_CYCLES || difference * 100 <= $2 * TOLERANCE_PERCENT))
}

# Measure footprint after footprint until the results agree.  `report` is called after each, as
# report <bytes> <matches>, with $ns and $cycles set.  In the end they hold the result.
find_walk_cost() { # <report>
	local report=$1 page_bytes pages matches=0 before="" i all=()
	page_bytes=$(getconf PAGESIZE)
	for ((i = 0; i < SIZES && matches < MATCHES && SECONDS < BEGIN_S; i++)); do
		pages=$((FIRST_PAGES + i * STEP_PAGES))
		measure "${pages}"
		# shellcheck disable=SC2310  # a status is what they give
		if ! is_cost; then
			before="" matches=0
		else
			if [[ -n ${before} ]] && agree "${cycles}" "${before}"; then
				matches=$((matches + 1))
			else
				matches=0
			fi
			before=${cycles}
			all+=("${ns} ${cycles}")
		fi
		"${report}" $((pages * page_bytes)) "${matches}"
	done
	((matches < MATCHES)) || return 0
	((${#all[@]} > 0)) || {
		local why
		why=$(reason)
		printf 'tlbcost: cannot measure the cost of a page walk here%s\n' "${why}" >&2
		printf 'tlbcost: hint: tlbcost calibrate --full\n' >&2
		exit 4
	}
	local sorted
	sorted=$(printf '%s\n' "${all[@]}" | sort -g)
	mapfile -t all <<<"${sorted}"
	# The lower of the middle two, so that ns and cycles belong together.
	read -r ns cycles <<<"${all[(${#all[@]} - 1) / 2]}"
	local low=${all[0]% *} high=${all[-1]% *}
	warn "no $((MATCHES + 1)) results in a row agree: this is the median of ${#all[@]}, of" \
		"${low} to ${high} ns; is the machine busy?"
}

# Number of misses of this cost in a second.
misses_per_second() { # <ns>
	awk -v ns="$1" 'BEGIN { printf "%.0f\n", int(1e9 / ns) }'
}
