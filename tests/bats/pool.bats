#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=settings
# Are huge pages reserved and released, whatever happens between, and nobody else's touched?
# On the real kernel: the pool of 2 MiB pages is changed, and put back however a test ends.

load common

SIZE=/sys/kernel/mm/hugepages/hugepages-2048kB
JOURNAL=/run/tlbcost/journal.json

setup() {
	need_pool
	need_program setsid unshare setpriv
	need_built tlbcost libexec/tlbcost-run venv/bin/python
	[[ ! -e ${JOURNAL} ]] || skip "tlbcost has changed this system's settings: tlbcost pool restore"
	[[ $(<"${SIZE}/surplus_hugepages") == 0 ]] || skip "huge pages are lent: somebody uses them"
	POOL=("${BUILD}/tlbcost" pool)
	in_own_folder
	BEFORE=$(<"${SIZE}/nr_hugepages")
	MOUNTS=$(grep hugetlbfs /proc/mounts || true)
	keep put_back
}

put_back() {
	touch "${BATS_TEST_TMPDIR}/go"
	"${POOL[@]}" restore
	echo "${BEFORE}" >"${SIZE}/nr_hugepages"
}

teardown() {
	end_keeper
}

pages() {
	cat "${SIZE}/nr_hugepages"
}

# Everything is as it was before the test.
as_before() {
	[[ $(pages) == "${BEFORE}" ]] || { printf '%s pages\n' "$(pages)" && return 1; }
	[[ $(grep hugetlbfs /proc/mounts || true) == "${MOUNTS}" ]]
	[[ ! -e ${JOURNAL} ]]
	[[ $(find /run/tlbcost -mindepth 1 ! -path "*/private*") == "" ]]
	[[ $(ls -A "${TMPDIR}") == "" ]]
}

# Reserve 16 pages for a command that waits, with the signals that an interactive shell leaves.
start() {
	rm -f inside
	setsid env --default-signal=INT,TERM "${POOL[@]}" reserve 16 -- \
		sh -c 'touch inside; exec sleep 98765' 2>stderr 3>&- &
	pid=$!
	wait_until test -e inside
	[[ $(pages) == "$((BEFORE + 16))" ]]
}

# Use 4 huge pages of the pool until there is a file "go".
user_of_4() {
	"${BUILD}/venv/bin/python" -c 'import mmap, pathlib, time
held = mmap.mmap(-1, 4 << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
for page in range(4):
    held[page << 21] = 1
pathlib.Path("holds").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.05)' 3>&- &
	wait_until test -e holds
}

@test "pool: 16 pages are reserved, stay, are shown, and released" {
	free=$(<"${SIZE}/free_hugepages")
	run --separate-stderr -0 "${POOL[@]}" reserve --page-size 2M 16
	[[ ${stderr} == *"16 pages are reserved, 2 MiB each; they stay until: tlbcost pool restore" ]]
	[[ $(pages) == "$((BEFORE + 16))" && $(<"${SIZE}/free_hugepages") == "$((free + 16))" ]]
	run -0 "${POOL[@]}" status
	[[ ${output} =~ "2 MiB "\ +$((BEFORE + 16))\ +$((free + 16))\  ]]
	[[ ${output} == *"hugetlbfs of 2 MiB pages is mounted on "* ]]
	[[ ${output} == *"${SIZE}/nr_hugepages: ${BEFORE} -> $((BEFORE + 16))"* ]]
	[[ ${output} == *"(tlbcost pool), stays until"* ]]
	run --separate-stderr -0 "${POOL[@]}" restore
	[[ ${stderr} == *"undoing what process "*" changed (tlbcost pool)"* ]]
	as_before
	run --separate-stderr -0 "${POOL[@]}" restore
	[[ ${stderr} == *"nothing to restore"* ]]
}

@test "pool: for a command, with its exit code, input and output; a pool that was not empty" {
	echo "$((BEFORE + 3))" >"${SIZE}/nr_hugepages"
	[[ $(pages) == "$((BEFORE + 3))" ]] || skip "no 3 huge pages of memory are in one piece"
	# 15 MiB are 8 pages.
	run --separate-stderr -7 "${POOL[@]}" reserve 15M -- \
		sh -c 'read -r word; echo "$word"; cat "$1"/nr_hugepages; exit 7' _ "${SIZE}" <<<hello
	[[ ${output} == "hello"$'\n'"$((BEFORE + 11))" && ${stderr} == "" ]]
	[[ $(pages) == "$((BEFORE + 3))" ]]
	run -137 "${POOL[@]}" reserve 2 -- sh -c 'kill -9 $$'
	run -127 "${POOL[@]}" reserve 2 -- ./missing
	run -126 "${POOL[@]}" reserve 2 -- "${BATS_TEST_TMPDIR}"
	[[ $(pages) == "$((BEFORE + 3))" ]]
	echo "${BEFORE}" >"${SIZE}/nr_hugepages"
	as_before
}

@test "pool: pages of 1 GiB" {
	local gib=/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages before
	[[ -e ${gib} ]] || skip "this kernel has no pool of 1 GiB pages"
	before=$(<"${gib}")
	run "${POOL[@]}" reserve --page-size 1G 1 -- cat "${gib}"
	[[ ${output} != *"memory is fragmented"* ]] || skip "no 1 GiB of memory is in one piece"
	[[ ${status} == 0 && ${output} == "$((before + 1))" && $(<"${gib}") == "${before}" ]]
	as_before
}

@test "pool: Ctrl-C and SIGTERM put everything back, however often they come" {
	start
	kill -INT -- "-${pid}"
	ended_with 130
	as_before
	start
	kill -TERM "${pid}"
	kill -TERM "${pid}" || true
	ended_with 143
	grep SIGTERM stderr
	as_before
}

@test "pool: after SIGKILL, restore puts everything back" {
	start
	kill -KILL -- "-${pid}"
	ended_with 137
	[[ $(pages) == "$((BEFORE + 16))" && -e ${JOURNAL} ]]
	run -0 "${POOL[@]}" status
	printf '%s\n' "${output}"
	[[ ${output} == *"process ${pid} ("*"), which was killed; 'tlbcost pool restore'"* ]]
	run --separate-stderr -0 "${POOL[@]}" restore
	[[ ${stderr} == *"undoing what process ${pid} changed"* ]]
	[[ ${stderr} != *"nothing to restore"* ]]
	as_before
}

@test "pool: after SIGKILL, the next use puts everything back first" {
	start
	kill -KILL -- "-${pid}"
	ended_with 137
	run --separate-stderr -0 "${POOL[@]}" reserve 2 -- cat "${SIZE}/nr_hugepages"
	[[ ${output} == "$((BEFORE + 2))" && ${stderr} == *"undoing what process ${pid}"* ]]
	as_before
}

@test "pool: what is to stay survives other uses, and SIGKILL of them" {
	"${POOL[@]}" reserve 3
	run -0 "${POOL[@]}" reserve 2 -- cat "${SIZE}/nr_hugepages"
	[[ ${output} == "$((BEFORE + 5))" && $(pages) == "$((BEFORE + 3))" ]]
	"${POOL[@]}" reserve 4
	[[ $(pages) == "$((BEFORE + 7))" ]]
	"${POOL[@]}" reserve 2 -- true
	[[ $(pages) == "$((BEFORE + 7))" ]]
	"${POOL[@]}" restore
	as_before
}

@test "pool: a second tlbcost waits, and does not undo what the first one uses" {
	start
	"${POOL[@]}" restore 2>waited 3>&- &
	local second=$!
	wait_until grep -q "waiting" waited
	grep "waiting up to 30 s: process ${pid} (tlbcost pool)" waited
	[[ $(pages) == "$((BEFORE + 16))" ]]
	answers 0 "process ${pid} (" "which restores it when it ends" -- "${POOL[@]}" status
	kill -TERM "${pid}"
	ended_with 143
	wait "${second}"
	as_before
}

@test "pool: a tlbcost below one that reserves does not wait for its own end" {
	run --separate-stderr -4 "${POOL[@]}" reserve 2 -- "${POOL[@]}" reserve 2 -- true
	[[ ${stderr} == *" runs us, and restores them"*"hint: run this command by itself"* ]]
	as_before
}

@test "pool: pages that another program uses are not taken away" {
	(($(<"${SIZE}/free_hugepages") == 0)) || skip "there are free huge pages already"
	"${POOL[@]}" reserve 6
	user_of_4
	run --separate-stderr -0 "${POOL[@]}" restore
	[[ ${stderr} == *"4 huge pages are in use by another program; the kernel takes them out"* ]]
	[[ $(pages) == "$((BEFORE + 4))" && $(<"${SIZE}/surplus_hugepages") == 4 ]]
	# The lent pages do not disturb what is reserved at the same time.
	run --separate-stderr -0 "${POOL[@]}" reserve 2 -- cat "${SIZE}/free_hugepages"
	[[ ${output} == 2 && $(<"${SIZE}/surplus_hugepages") == 4 ]]
	touch go
	wait $!
	as_before
}

@test "pool: what an administrator changed during the run stays, and is reported" {
	run --separate-stderr -0 "${POOL[@]}" reserve 4 -- \
		sh -c 'echo "$2" >"$1"/nr_hugepages' _ "${SIZE}" "$((BEFORE + 9))"
	[[ ${stderr} == *"nr_hugepages is $((BEFORE + 9)), not $((BEFORE + 4)) as tlbcost wrote:"* ]]
	[[ $(pages) == "$((BEFORE + 9))" && ! -e ${JOURNAL} ]]
	echo "${BEFORE}" >"${SIZE}/nr_hugepages"
	as_before
}

@test "pool: more than the machine can spare is refused before anything changes" {
	run --separate-stderr -4 "${POOL[@]}" reserve 4000000
	[[ ${stderr} =~ "cannot reserve 4000000 pages of 2 MiB: this machine can spare "[0-9]+ ]]
	run --separate-stderr -4 "${POOL[@]}" reserve --page-size 32K 1
	[[ ${stderr} == *"this kernel has no pool of that size"*"hint: page sizes with a pool here: "* ]]
	as_before
}

@test "pool: without root, the pools are shown, and the hint is the command to type" {
	as_nobody
	run -0 "${unprivileged[@]}" pool status
	[[ ${output} =~ "2 MiB "\ +${BEFORE}\ + ]]
	run --separate-stderr -4 "${unprivileged[@]}" pool reserve 16 -- echo "a b"
	[[ ${stderr} == *"cannot change this system's settings: that needs root"* ]]
	if type -P sudo >/dev/null; then
		[[ ${stderr} == *"hint: sudo "*"${BUILD}/tlbcost"*" pool reserve 16 -- echo 'a b'" ]]
	else
		[[ ${stderr} == *"hint: su -c '"*"${BUILD}/tlbcost"*" pool reserve 16 -- echo "* ]]
	fi
	as_before
}

@test "pool: a hugetlbfs in use stays noted until it can be unmounted" {
	run --separate-stderr -0 "${POOL[@]}" reserve 2 -- sh -c \
		'cd /run/tlbcost/hugetlbfs-2M && { sleep 98765 >&- 2>&- & echo $! >"$1"; }' _ "${PWD}/sleeper" 3>&-
	[[ ${stderr} == *"cannot unmount /run/tlbcost/hugetlbfs-2M: "*"busy"* ]]
	[[ $(pages) == "${BEFORE}" && -e ${JOURNAL} ]]
	run -1 "${POOL[@]}" restore
	kill "$(<sleeper)"
	"${POOL[@]}" restore
	as_before
}

@test "pool: nothing changes where the journal cannot be written" {
	mkdir -p /run/tlbcost
	run -1 unshare -m sh -c 'mount -t tmpfs -o mode=755,size=4k,nr_inodes=10 none /run/tlbcost
		echo filled >/run/tlbcost/full; "$@"' _ "${POOL[@]}" reserve 4
	printf '%s\n' "${output}"
	[[ ${output} == *"cannot record in /run/tlbcost"*"so nothing was: No space left on device"* ]]
	as_before
	run -125 unshare -m sh -c 'mount -t tmpfs -o mode=755,ro none /run/tlbcost; "$@"' _ \
		"${POOL[@]}" reserve 4 -- true
	[[ ${output} == *"so nothing was: Read-only file system"* ]]
	as_before
}

@test "pool: a disk that fills during the run hinders no restoring" {
	mkdir -p /run/tlbcost
	run -0 unshare -m bash -c 'mount -t tmpfs -o mode=755,size=12k none /run/tlbcost
		"$@" 2
		"$@" 4 -- sh -c "cat /dev/zero >/run/tlbcost/full 2>/dev/null; true"
		cat "${0}"/nr_hugepages
		rm /run/tlbcost/full
		"$1" pool restore' "${SIZE}" "${POOL[@]}" reserve 3>&-
	printf '%s\n' "${output}"
	[[ ${output} == *"what was restored is still recorded there"*$'\n'"$((BEFORE + 2))"$'\n'* ]]
	as_before
}

@test "pool: a damaged journal is not guessed at" {
	mkdir -p /run/tlbcost
	echo '{"format": "tlbcost journal 2", "boot_id"' >"${JOURNAL}"
	run --separate-stderr -1 "${POOL[@]}" restore
	[[ ${stderr} == *"cannot find out what tlbcost changed: ${JOURNAL}: it is damaged"*"rm ${JOURNAL}" ]]
	run -1 "${POOL[@]}" reserve 2
	rm "${JOURNAL}"
	as_before
}

@test "pool: wrong command lines" {
	for words in "" "lend 2" "reserve" "reserve 0" "reserve two" "reserve 2 true" "reserve 2 --" \
		"reserve --page-size 2 2" "status now" "restore all"; do
		# shellcheck disable=SC2086
		run -2 "${POOL[@]}" ${words}
	done
	as_before
}
