#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# When a calibration is not available, or is disturbed or ended: is that said, and is nothing left?

load common

setup() {
	need_built tlbcost libexec/tlbcost-calibrate
	need_program pgrep
	PROBE=${BUILD}/libexec/tlbcost-calibrate
	# A run of a second, and one that continues until it is stopped.
	SHORT=(--measure "cycles,near" --lines "64,256,3328" --sweeps 3 --time-limit 3)
	LONG=(--measure near --sweeps 100000 --time-limit 60)
	PAGE=$(getconf PAGESIZE)
	SAMPLES=${BATS_TEST_TMPDIR}/s.tsv
	export XDG_CACHE_HOME=${BATS_TEST_TMPDIR}/cache
	export TMPDIR=${BATS_TEST_TMPDIR}/tmp
	mkdir "${TMPDIR}"
	RESTORE=()
}

# Whatever a test changed is put back, however it ended.
teardown() {
	local command
	for command in "${RESTORE[@]}"; do
		eval "${command}" || true
	done
}

# A made-up machine: plenty of memory, transparent huge pages off, no pool.
machine_without_huge_pages() {
	export TLBCOST_ROOT=${BATS_TEST_TMPDIR}/root
	local kernel=${TLBCOST_ROOT}/sys/kernel/mm governors=${TLBCOST_ROOT}/sys/devices/system/cpu/cpu0/cpufreq
	mkdir -p "${TLBCOST_ROOT}/proc" "${kernel}/transparent_hugepage" \
		"${kernel}/hugepages/hugepages-2048kB" "${governors}"
	cp /proc/cpuinfo "${TLBCOST_ROOT}/proc/"
	printf 'MemAvailable:   2097152 kB\nHugepagesize:    2048 kB\n' >"${TLBCOST_ROOT}/proc/meminfo"
	echo 'always madvise [never]' >"${kernel}/transparent_hugepage/enabled"
	echo 2097152 >"${kernel}/transparent_hugepage/hpage_pmd_size"
	echo 0 | tee "${kernel}/hugepages/hugepages-2048kB/"{nr,free,resv}_hugepages >/dev/null
	GOVERNOR=${governors}/scaling_governor
	echo powersave >"${GOVERNOR}"
}

# Start a command as the head of a process group of its own, wait until the probe is at work in
# it, do <text> with the group in $group and the command in $command, and print the code.
disturb() { # <text> <command>...
	local text=$1
	shift
	# Job control, since a shell makes its background children ignore SIGINT without it.
	bash -c '
		set -m
		text=$1
		shift
		"$@" >/dev/null 2>"$TMPDIR/../err" &
		group=$! command=$!
		for ((i = 0; i < 600; i++)); do
			probe=$(pgrep -g "$group" -f "^[^ ]*tlbcost-calibrate ") && break
			sleep 0.1
		done
		# Past its start.
		sleep 0.3
		eval "$text"
		code=0
		wait "$command" 2>/dev/null || code=$?
		echo "code $code"
		for ((i = 0; i < 600; i++)); do
			pgrep -g "$group" >/dev/null || { echo "no process"; exit; }
			sleep 0.1
		done' - "${text}" "$@" 2>/dev/null
}

nothing_left() { # [<what find may see>...]
	[[ -z $(ls -A "${TMPDIR}") ]]
	# A lock that was left is empty, and nobody has it.
	[[ -z $(find "${XDG_CACHE_HOME}" -type f "$@" 2>/dev/null) ]]
	[[ ! -e ${SAMPLES} && -z $(find "${BATS_TEST_TMPDIR}" -name 's.tsv*') ]]
}

@test "too little memory is exit code 4 and names the limit" {
	run -4 --separate-stderr "${PROBE}" --max-memory 4M
	[[ ${stderr} == *"not enough memory to calibrate"*"--max-memory leaves 4 MiB"* ]]
	[[ ${stderr} == *"tlbcost: hint: "* ]]
	mkdir -p "${BATS_TEST_TMPDIR}/root/proc"
	printf 'MemAvailable:   1024 kB\n' >"${BATS_TEST_TMPDIR}/root/proc/meminfo"
	TLBCOST_ROOT=${BATS_TEST_TMPDIR}/root run -4 --separate-stderr "${PROBE}"
	[[ ${stderr} == *"MemAvailable of /proc/meminfo leaves 1 MiB"* ]]
	TLBCOST_ROOT=${BATS_TEST_TMPDIR}/root run -4 --separate-stderr "${BUILD}/tlbcost" calibrate
	[[ ${stderr} == *"MemAvailable of /proc/meminfo leaves 1 MiB"*"tlbcost: hint: "* ]]
	nothing_left
}

@test "with little memory the largest footprints are left out, and that is said" {
	run -0 --separate-stderr "${PROBE}" --measure near,far --sweeps 2 --max-memory 32M --output "${SAMPLES}"
	grep -Eq '^# (limited|skipped)_.*memory' "${SAMPLES}"
	local largest
	largest=$(awk -F '\t' '$1 == "tlb" && $6 > most { most = $6 } END { print most }' "${SAMPLES}")
	((largest > 1024 && largest * PAGE <= 32 << 20))
}

@test "a small cgroup is respected, or refused by name" {
	need_root
	in_cgroup $((1 << 30)) true
	run -4 --separate-stderr in_cgroup $((2 << 20)) "${PROBE}"
	[[ ${stderr} == *"/tlbcost-test-"*"memory."*" leaves "[012]" MiB"* ]]
	run -0 in_cgroup $((200 << 20)) "${PROBE}" --measure near,far --sweeps 2 --time-limit 4 --output "${SAMPLES}"
	local limit
	limit=$(awk '/^# memory_limit_bytes:/ { print $3 }' "${SAMPLES}")
	((limit <= 100 << 20))
	grep -Eq '^# (limited|skipped)_.*memory' "${SAMPLES}"
}

@test "without huge pages the base pages are measured, and the reason is reported" {
	machine_without_huge_pages
	run -0 "${PROBE}" --measure cycles,near,dense,large --lines 64,256 --sweeps 2 --output "${SAMPLES}"
	grep -Eq '^# skipped_2097152.*: .+' "${SAMPLES}"
	# Packed chains are in base pages then.
	[[ $(awk '/^# packed_page_bytes:/ { print $3 }' "${SAMPLES}") == "${PAGE}" ]]
	run -0 awk -F '\t' '$1 == "tlb" { print $2 }' "${SAMPLES}"
	[[ $(sort -u <<<"${output}") == "${PAGE}" ]]
}

@test "a pool that is too small limits the footprints, and its pages are released" {
	need_root
	local pool=/sys/kernel/mm/hugepages/hugepages-2048kB before free
	[[ -w ${pool}/nr_hugepages ]] || skip "needs a hugetlb pool of 2 MiB pages"
	before=$(<"${pool}/nr_hugepages") free=$(<"${pool}/free_hugepages")
	[[ ${before} == "${free}" ]] || skip "somebody uses the hugetlb pool"
	RESTORE+=("echo ${before} >${pool}/nr_hugepages")
	echo 3 >"${pool}/nr_hugepages"
	[[ $(<"${pool}/free_hugepages") == 3 ]] || skip "no three huge pages are free"
	run -0 "${PROBE}" --measure large,dense --huge-method hugetlb --page-size 2M --sweeps 2 --output "${SAMPLES}"
	grep -Eq '^# (limited|skipped)_2097152.*: .*pool' "${SAMPLES}"
	run -0 awk -F '\t' '$1 == "tlb" && $3 == "spread" && $6 > 3' "${SAMPLES}"
	[[ ${output} == "" ]]
	[[ $(<"${pool}/free_hugepages") == 3 ]]
	# Also if it is killed while it has them.
	disturb 'kill -KILL -- "-$group"' "${PROBE}" --measure dense --huge-method hugetlb \
		--page-size 2M --sweeps 100000 --time-limit 60 --output "${SAMPLES}"
	[[ $(<"${pool}/free_hugepages") == 3 ]]
	[[ $(<"${pool}/resv_hugepages") == 0 ]]
	# And if the pool is empty, or gone, after all.
	echo 0 >"${pool}/nr_hugepages"
	run -0 "${PROBE}" --measure large --huge-method hugetlb --page-size 2M --sweeps 2 --output -
	[[ ${output} == *"# skipped_2097152"*"pool"* ]]
	[[ ${lines[-1]} == "# end: 0" ]]
}

@test "one CPU is enough" {
	need_program taskset
	local cpu
	cpu=$(taskset -cp $$ | sed 's/.*[:,-] *//')
	run -0 taskset -c "${cpu}" "${PROBE}" "${SHORT[@]}" --output "${SAMPLES}"
	[[ $(awk '/^# cpu:/ { print $3 }' "${SAMPLES}") == "${cpu}" ]]
	[[ $(tail -n 1 "${SAMPLES}") == "# end: "[1-9]* ]]
}

# CPU 1 can be taken offline, and all will be as it was when it is online again.
need_spare_cpu() {
	need_root
	need_program taskset
	ONLINE=/sys/devices/system/cpu/cpu1/online
	[[ -w ${ONLINE} && $(<"${ONLINE}") == 1 ]] || skip "needs a second CPU that can be taken offline"
	# What would not come back by itself: narrower cpusets, and what others pinned to this CPU.
	[[ -z $(find /sys/fs/cgroup/cpuset -mindepth 1 -type d -print -quit 2>/dev/null) ]] ||
		skip "cpusets would lose the CPU for good"
	# shellcheck disable=SC2046  # numbers
	! grep -qs "^VmSize:" $(grep -lsP "^Cpus_allowed_list:\t1$" /proc/[0-9]*/status) /dev/null ||
		skip "a program is pinned to CPU 1"
	RESTORE+=("echo 1 >${ONLINE}")
}

@test "a CPU that goes offline during a run: what was measured on it is kept, and no other CPU's time" {
	need_spare_cpu
	run -0 disturb "sleep 0.5; echo 0 >${ONLINE}" \
		taskset -c 1 "${PROBE}" "${LONG[@]}" --output "${SAMPLES}"
	echo 1 >"${ONLINE}"
	[[ ${output} == *"code 0"*"no process"* ]]
	[[ $(awk '/^# cpu:/ { print $3 }' "${SAMPLES}") == 1 ]]
	grep -q '^# moved_cpu: .' "${SAMPLES}"
	[[ $(tail -n 1 "${SAMPLES}") == "# end: "[1-9]* ]]
}

@test "a calibration whose CPU goes offline is no half calibration: it measures again" {
	need_spare_cpu
	run -0 disturb "sleep 0.5; echo 0 >${ONLINE}; sleep 2; echo 1 >${ONLINE}" \
		taskset -c 1 "${BUILD}/tlbcost" calibrate
	[[ ${output} == *"code 0"*"no process"* ]]
	grep -q '^tlbcost: CPU 1 went offline while it was measured: measuring again$' "${BATS_TEST_TMPDIR}/err"
}

@test "a governor that changes during a run: measured again; a cache that cannot be kept: said" {
	machine_without_huge_pages
	export XDG_CACHE_HOME=/proc/no-such-place
	disturb "echo performance >${GOVERNOR@Q}" "${BUILD}/tlbcost" calibrate \
		--details --output "${BATS_TEST_TMPDIR}/report" >"${BATS_TEST_TMPDIR}/said"
	[[ $(<"${BATS_TEST_TMPDIR}/said") == *"code 0"* ]]
	local err
	err=$(<"${BATS_TEST_TMPDIR}/err")
	[[ ${err} == *"the frequency governor changed from powersave to performance while it was measured: measuring again"* ]]
	# On a machine that others keep busy it may be one that is not to be kept.
	[[ ${err} == *"the calibration could not be saved: /proc/no-such-place/"* ||
		${err} == *"poor calibration"* ]]
	# The figures belong to the later setting, and to base pages alone.
	[[ $(tr -s ' \n' ' ' <"${BATS_TEST_TMPDIR}/report") == *"governor performance"* ]]
	[[ -z $(ls -A "${TMPDIR}") ]]
}

@test "SIGINT and SIGTERM end a calibration with 130 and 143, and leave nothing" {
	run -0 disturb 'kill -INT -- "-$group"' "${BUILD}/tlbcost" calibrate --output "${SAMPLES}"
	[[ ${output} == *"code 130"*"no process" ]]
	[[ $(<"${BATS_TEST_TMPDIR}/err") == *"tlbcost: ended by SIGINT"* ]]
	nothing_left
	# To tlbcost alone: its calibrator ends with it.
	run -0 disturb 'kill -TERM "$command"' "${BUILD}/tlbcost" calibrate --output "${SAMPLES}"
	[[ ${output} == *"code 143"*"no process" ]]
	nothing_left
}

@test "SIGKILL of tlbcost ends its calibrator too" {
	run -0 disturb 'kill -KILL "$command"' "${BUILD}/tlbcost" calibrate --output "${SAMPLES}"
	[[ ${output} == *"code 137"*"no process" ]]
	nothing_left -size +0
}

@test "SIGKILL of the calibrator is reported by name, with a hint" {
	run -0 disturb 'kill -KILL $probe' "${BUILD}/tlbcost" calibrate --output "${SAMPLES}"
	[[ ${output} == *"code 1"*"no process" ]]
	[[ $(<"${BATS_TEST_TMPDIR}/err") == *"tlbcost: cannot calibrate: the calibrator was killed by SIGKILL"*"tlbcost: hint: "* ]]
	nothing_left
}

@test "the calibrator alone, ended by a signal, leaves nothing" {
	local signal
	for signal in INT TERM; do
		run -0 disturb "kill -${signal} \$probe" "${PROBE}" "${LONG[@]}" --output "${SAMPLES}"
		[[ ${output} == *"code 1"[34][03]*"no process" ]]
		nothing_left
	done
}

@test "where code may not be made, the code side is left out, and that is said" {
	# Memory-deny-write-execute, as services and SELinux have it: Linux 6.3.
	cat >"${BATS_TEST_TMPDIR}/deny" <<-'END'
		import ctypes, os, sys
		PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
		if ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) != 0:
		    sys.exit(77)
		os.execv(sys.argv[1], sys.argv[1:])
	END
	local code=0
	python3 "${BATS_TEST_TMPDIR}/deny" "${PROBE}" --measure cycles,code --sweeps 2 \
		--output "${SAMPLES}" || code=$?
	((code != 77)) || skip "this kernel cannot forbid it (Linux 6.3 can)"
	((code == 0))
	grep -Eq '^# skipped_.*code: .+' "${SAMPLES}"
	run -0 awk -F '\t' '$1 == "code"' "${SAMPLES}"
	[[ ${output} == "" ]]
	[[ $(tail -n 1 "${SAMPLES}") == "# end: "[1-9]* ]]
}
