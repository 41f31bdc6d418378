#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=settings
# Does tlbcost run --thp put each allocator's memory on huge pages, and is the program the same as
# without?  What memory got is what the program's own smaps says while it has most.

load common

THP=/sys/kernel/mm/transparent_hugepage
# Of 96 MiB: what may stay on base pages at the ends of mappings, in kB.
LEAST=$((88 << 10))

setup_file() {
	make_memory thp
}

compile() { # <compiler> [<option>...]
	"$1" -std=c11 -D_GNU_SOURCE -O1 "${@:2}" "${TREE}/tests/backing/memory.c"
}

setup() {
	need_built tlbcost libexec/tlbcost-thp venv/bin/python
	need_program cc
	[[ $(uname -m) == x86_64 ]] || skip "needs x86-64"
	[[ -e ${THP}/enabled ]] || skip "needs transparent huge pages"
	[[ $(<"${THP}/enabled") != *"[never]"* ]] || skip "transparent huge pages are off"
	"${BUILD}/libexec/tlbcost-thp" -- true 2>/dev/null || skip "programs may not be traced here"
	unset LD_PRELOAD
	export SMAPS=${BATS_TEST_TMPDIR}/smaps TLBCOST=${BUILD}/tlbcost
	REACHED=${BATS_TEST_TMPDIR}/reached.json
	cd "${BATS_TEST_TMPDIR}" || return
}

under_thp() { # <word of a command>...
	run --separate-stderr timeout 100 "${TLBCOST}" run --thp --json "${REACHED}" -- "$@"
	printf '%s\n' "${output}" "${stderr}"
}

reached() { # <key>
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "${REACHED}" "$1"
}

# kB of a field of what the program copied from its smaps, or smaps_rollup.
of_smaps() { # <field>
	awk -v field="$1:" '$1 == field { sum += $2 } END { print sum + 0 }' "${SMAPS}"
}

# What the program saw of its own memory.
proven() { # [<kB>]
	local huge
	((status == 0))
	huge=$(of_smaps AnonHugePages)
	printf 'huge %d kB of %d kB\n' "${huge}" "$(of_smaps Anonymous)"
	((huge >= ${1:-LEAST}))
	[[ ${stderr} == "tlbcost: "*" of anonymous memory were on huge pages at the peak"* ]]
}

half_proven() {
	proven "$(($(of_smaps Anonymous) / 2))"
	(($(of_smaps Anonymous) >= 32 << 10))
}

# malloc's blocks, small ones in small steps, and those of a thread.
by_preload() { # <glob of a library>...
	local library kind
	library=$(compgen -G "$1" | head -n 1) || skip "needs ${1##*/}"
	for kind in malloc steps arena; do
		run --separate-stderr env LD_PRELOAD="${library}" timeout 100 "${TLBCOST}" run --thp \
			--json "${REACHED}" -- "${MEMORY}" "${kind}" 0
		echo "${kind}: ${stderr}"
		proven
	done
}

@test "glibc: large blocks, the heap in small steps, arenas of threads, mmap and static arrays" {
	local kind
	for kind in malloc steps arena mmap bss; do
		under_thp "${MEMORY}" "${kind}" 0
		proven
	done
}

@test "a heap that shrinks keeps its huge pages, and what it gets again is zero" {
	cc -std=c11 -D_GNU_SOURCE -O1 -o heap "${BATS_TEST_DIRNAME}/../thp/heap.c"
	./heap
	under_thp ./heap
	((status == 0))
	((output >= 28 << 10))
}

@test "small mappings come from an arena, and are zero and apart; without room each asks by itself" {
	cc -std=c11 -D_GNU_SOURCE -O1 -o small "${BATS_TEST_DIRNAME}/../thp/small.c"
	./small
	under_thp ./small
	((status == 0))
	((output >= 62 << 10))
	under_thp ./small limited
	((status == 0))
	((output >= 40 << 10))
}

@test "code of a program, static or not, and of a library: on huge pages by --text alone" {
	local program code=${BATS_TEST_DIRNAME}/../thp/text.c
	cc -O1 -o plain "${code}"
	cc -O1 -shared -fPIC -DWITHOUT_MAIN -o libpages.so "${code}"
	cc -O1 -fPIC -DWITHOUT_PAGES -o linked "${code}" -L. -lpages -Wl,-rpath,"${PWD}"
	cc -O1 -static -o fixed "${code}" || cp plain fixed
	for program in plain linked fixed; do
		under_thp "./${program}"
		((status == 0 && output == 0))
		run --separate-stderr "${TLBCOST}" run --thp --text -- "./${program}"
		echo "${program}: ${output} ${stderr}"
		((status == 0))
		((output >= 6 << 10))
	done
	answers --apart 2 "--text is for a program that --thp starts" -- "${TLBCOST}" run --thp --text --pid 1
	run -2 --separate-stderr "${TLBCOST}" run --no-thp --text -- true
}

# bats test_tags=long
@test "what is reported is what the program saw" {
	under_thp "${MEMORY}" malloc 500
	proven
	(($(reached huge_bytes) >= LEAST * 9 * 1024 / 10))
}

# bats test_tags=long
@test "sqlite3, whose heap shrinks and grows all the time" {
	need_program sqlite3
	under_thp sqlite3 :memory: 'create table t (a integer, b text);
		with recursive n (i) as (values (1) union all select i + 1 from n where i < 400000)
			insert into t select i, hex(i * 7919) from n;
		create index x on t (b);
		select count(*) from t where b in (select hex(a) from t);'
	((status == 0))
	(($(reached huge_bytes) * 10 > $(reached anonymous_bytes) * 8))
}

@test "a static program: the same" {
	compile cc -static -pthread -o "${PROGRAMS}/static" || skip "needs a static C library"
	local kind
	for kind in malloc steps arena mmap bss; do
		under_thp "${PROGRAMS}/static" "${kind}" 0
		proven
	done
}

# bats test_tags=long
@test "jemalloc" {
	by_preload '/usr/lib/*/libjemalloc.so.2'
}

# bats test_tags=long
@test "tcmalloc (gperftools)" {
	by_preload '/usr/lib/*/libtcmalloc_minimal.so.4'
}

# bats test_tags=long
@test "mimalloc" {
	by_preload '/usr/lib/*/libmimalloc.so.[23]'
}

# bats test_tags=long
@test "musl, with its loader and static" {
	need_program musl-gcc
	compile musl-gcc -o "${PROGRAMS}/musl"
	compile musl-gcc -static -o "${PROGRAMS}/musl-static"
	local kind program
	for program in musl musl-static; do
		for kind in malloc steps arena bss; do
			under_thp "${PROGRAMS}/${program}" "${kind}" 0
			proven
		done
	done
}

# bats test_tags=long
@test "the JVM's heap" {
	need_program java javac
	cat >Hog.java <<-'EOF'
		import java.nio.file.*;

		public class Hog {
			public static void main(String[] arguments) throws Exception {
				long[][] blocks = new long[12][1 << 20];
				for (long[] block : blocks)
					java.util.Arrays.fill(block, 1);
				Files.write(Paths.get(System.getenv("SMAPS")),
					Files.readAllBytes(Paths.get("/proc/self/smaps_rollup")));
				Thread.sleep(500);
				System.exit((int) blocks[3][7] - 1);
			}
		}
	EOF
	javac -d . Hog.java
	under_thp java -Xmx256m -cp . Hog
	proven
}

@test "Python's objects, and its large blocks" {
	# Its peak is there for a moment, to be seen.
	local write='
import os, time
open(os.environ["SMAPS"], "w").write(open("/proc/self/smaps_rollup").read())
time.sleep(0.3)'
	under_thp python3 -c "objects = [str(i) for i in range(1500000)]${write}"
	half_proven
	under_thp python3 -c "block = bytearray(b'x') * (96 << 20)${write}"
	proven
}

@test "all that the program starts: processes of a shell, threads, vfork" {
	under_thp sh -c '"$1" malloc 50; "$1" steps 50 & "$1" bss 0; wait' sh "${MEMORY}"
	proven
	under_thp python3 -c '
import concurrent.futures, os, subprocess, sys
text = subprocess.run([sys.argv[1], "arena", "0"], check=True, close_fds=False)
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    sums = list(pool.map(lambda i: sum(bytearray(bytes([1]) * (4 << 20))), range(16)))
assert sums == [4 << 20] * 16
for i in range(60):
    pid = os.fork()
    if not pid:
        os._exit(len([str(n) for n in range(20000)]) - 20000)
    assert os.waitpid(pid, 0)[1] == 0' "${MEMORY}"
	((status == 0))
}

@test "the exit code is the program's, or the signal's, or of one that does not start" {
	under_thp sh -c 'exit 3'
	((status == 3))
	(($(reached exit_code) == 3))
	under_thp sh -c 'kill -SEGV $$'
	((status == 139))
	run -127 --separate-stderr "${TLBCOST}" run --thp -- ./nothing
	[[ ${stderr} == *"cannot run ./nothing: no such file"*hint:* ]]
	printf 'x' >text
	under_thp ./text
	((status == 126))
	chmod +x text
	under_thp ./text
	((status == 126))
	[[ ${stderr} == *"neither a program for this machine nor a script"* ]]
	under_thp "${BATS_TEST_TMPDIR}"
	((status == 126))
}

@test "streams, environment, descriptors, working directory and signals are as without" {
	local script='cat; echo to-err >&2; env | grep -v "^_=" | sort; pwd; umask
		for fd in /proc/self/fd/*; do echo "${fd##*/}"; done | sort -n | tail -n 3
		grep -E "^(Sig(Blk|Cgt)|ShdPnd)" /proc/self/status
		ulimit -a; nice'
	run --separate-stderr sh -c "${script}" 7</dev/null <<<input
	local before=${output}
	run --separate-stderr "${TLBCOST}" run --thp --quiet -- sh -c "${script}" 7</dev/null <<<input
	diff <(echo "${before}") <(echo "${output}")
	[[ ${stderr} == to-err ]]
}

@test "SIGTERM and SIGINT are the program's to act on" {
	cat >program <<-'EOF'
		trap 'echo term; exit 5' TERM
		trap 'echo int; exit 6' INT
		echo ready
		while :; do sleep 0.1; done
	EOF
	local signal code pid rc
	for signal in TERM:5 INT:6; do
		code=${signal#*:}
		: >out
		# A process group of its own, as at a terminal, and interrupts as a shell's own.
		setsid python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' \
			"${TLBCOST}" run --thp -- bash program >out 2>err 3>&- &
		pid=$!
		wait_until grep -q ready out
		if [[ ${signal} == TERM* ]]; then
			kill -TERM "${pid}"
		else
			kill -INT -- "-${pid}"
		fi
		rc=0
		wait "${pid}" || rc=$?
		cat out err
		((rc == code))
		grep -q "of anonymous memory" err
	done
}

@test "a stopped program stays stopped until it is continued" {
	"${TLBCOST}" run --thp -- python3 -c '
import os, time
print(os.getpid(), flush=True)
for i in range(40):
    block = [bytes(100) for n in range(20000)]
    time.sleep(0.02)
print("done", flush=True)' >out 2>err 3>&- &
	local pid=$! program
	wait_until test -s out
	program=$(head -n 1 out)
	kill -STOP "${program}"
	wait_until is_stopped "${program}"
	sleep 0.3
	is_stopped "${program}"
	kill -CONT "${program}"
	wait "${pid}"
	[[ $(tail -n 1 out) == "done" ]]
}

traced_by() { # <pid>
	awk '/^TracerPid/ { print $2 }' "/proc/$1/status"
}

@test "processes that stay behind are served on, and then nothing is left" {
	local pid tracer
	run --separate-stderr timeout 60 "${TLBCOST}" run --thp -- \
		sh -c 'sleep 3 >/dev/null 2>&1 & echo $!' 3>&-
	((status == 0))
	pid=${output}
	[[ ${stderr} == *"1 of its processes remains"* ]]
	kill -0 "${pid}"
	tracer=$(traced_by "${pid}")
	((tracer > 1))
	wait_until has_ended "${pid}"
	wait_until has_ended "${tracer}"
}

@test "where the tracer is killed, the program ends, and nothing of it is left" {
	"${TLBCOST}" run --thp -- sh -c 'echo $$; sleep 60 & wait' >out 2>err 3>&- &
	local launcher=$! program rc=0
	wait_until test -s out
	program=$(<out)
	kill -KILL "$(traced_by "${program}")"
	wait "${launcher}" || rc=$?
	cat err
	((rc == 125))
	wait_until has_ended "${program}"
	grep -q "^tlbcost: " err
}

@test "what a program does against it is said" {
	under_thp python3 -c 'import ctypes; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)'
	((status == 0))
	[[ ${stderr} == *"turned transparent huge pages off for itself"* ]]
	under_thp python3 -c 'import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)'
	((status == 0))
	[[ ${stderr} == *"called ptrace(), which fails here"* ]]
	# Of 28: madvise, for which a filter may well kill.
	under_thp python3 "${BATS_TEST_DIRNAME}/../thp/deny.py" 28 "${MEMORY}" malloc 0
	((status == 0))
	[[ ${stderr} == *"limited its own system calls (seccomp)"* ]]
	(($(of_smaps AnonHugePages) == 0)) || [[ $(<"${THP}/enabled") == *"[always]"* ]]
}

@test "where tracing or filters are not allowed, it says so, and nothing runs" {
	local call
	# ptrace, seccomp
	for call in 101 317; do
		run --separate-stderr python3 "${BATS_TEST_DIRNAME}/../thp/deny.py" "${call}" \
			"${TLBCOST}" run --thp -- touch ran
		echo "${stderr}"
		((status == 4))
		[[ ${stderr} == *"Operation not permitted"*"hint: allow ptrace and seccomp"* ]]
		[[ ! -e ran ]]
	done
}

@test "where transparent huge pages are off or absent, it says so" {
	export TLBCOST_ROOT=${BATS_TEST_TMPDIR}/machine
	mkdir -p "${TLBCOST_ROOT}${THP}"
	echo 'always madvise [never]' >"${TLBCOST_ROOT}${THP}/enabled"
	run --separate-stderr "${TLBCOST}" run --thp -- touch ran
	((status == 4))
	[[ ${stderr} == *"transparent huge pages are off"*"hint: "*madvise* ]]
	rm -r "${TLBCOST_ROOT}${THP}"
	run --separate-stderr "${TLBCOST}" run --thp -- touch ran
	((status == 4))
	[[ ${stderr} == *"this kernel has no transparent huge pages"* && ! -e ran ]]
}

@test "without huge pages, or with those it asks for, though the system's mode is always" {
	need_root
	keep eval "echo $(sed 's/.*\[\(.*\)\].*/\1/' "${THP}/enabled") >${THP}/enabled"
	echo always >"${THP}/enabled"
	run -0 "${MEMORY}" mmap 0
	(($(of_smaps AnonHugePages) >= LEAST))
	run -0 "${TLBCOST}" run --no-thp -- "${MEMORY}" mmap 0
	(($(of_smaps AnonHugePages) == 0))
	run --separate-stderr "${TLBCOST}" run --thp-advised-only -- "${MEMORY}" mmap 0
	if ((status == 4)); then
		[[ ${stderr} == *"Linux 6.18 can"* ]]
	else
		(($(of_smaps AnonHugePages) == 0))
		# glibc's malloc asks where the mode is madvise alone.
		run -0 "${TLBCOST}" run --thp-advised-only -- python3 -c 'import mmap
memory = mmap.mmap(-1, 96 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_HUGEPAGE)
memory.write(bytes(96 << 20))
print(open("/proc/self/smaps").read())'
		printf '%s\n' "${output}" >"${SMAPS}"
		(($(of_smaps AnonHugePages) >= LEAST))
	fi
	end_keeper
}

@test "a user who is not root: the same; a setuid program is refused" {
	need_root
	as_nobody
	chmod 0755 "${BATS_TEST_TMPDIR}"
	# Where that user finds it, and the runner, which removes it.
	SMAPS=$(mktemp)
	chmod 666 "${SMAPS}"
	export TMPDIR=/tmp
	cd /
	run --separate-stderr "${unprivileged[@]}" run --thp -- "${MEMORY}" steps 0
	proven
	rm "${SMAPS}"
	cp "$(type -P true)" "${PROGRAMS}/own"
	chmod 4755 "${PROGRAMS}/own"
	run --separate-stderr "${unprivileged[@]}" run --thp -- "${PROGRAMS}/own"
	((status == 4))
	[[ ${stderr} == *"it is setuid, and a traced program gains no rights"* ]]
	sleep 60 3>&- &
	run --separate-stderr "${unprivileged[@]}" run --thp --pid "$!"
	kill "$!"
	((status == 4))
	[[ ${stderr} == *"it may not be traced: "* || ${stderr} == *"permission denied"* ]]
}

@test "a wrong command line" {
	run -2 --separate-stderr "${TLBCOST}" run -- true
	[[ ${stderr} == *"one of --thp, --no-thp, --thp-advised-only and --plan"*"hint: tlbcost run --thp"* ]]
	run -2 --separate-stderr "${TLBCOST}" run --thp --no-thp -- true
	run -2 --separate-stderr "${TLBCOST}" run --no-thp --pid 1
	run -127 --separate-stderr "${TLBCOST}" run --no-thp -- /nowhere/app
	run -2 --separate-stderr "${TLBCOST}" run --thp
	run -2 --separate-stderr "${TLBCOST}" run --thp --pid 1 -- true
	run -2 --separate-stderr "${TLBCOST}" run --thp --no-collapse -- true
	run -125 --separate-stderr "${TLBCOST}" run --thp --json /nowhere/x -- touch ran
	[[ ! -e ran ]]
	run -0 --separate-stderr "${TLBCOST}" run --thp --quiet -- true
	[[ -z ${stderr} ]]
}

@test "a running process: its memory moves, and it runs on" {
	cat >service.py <<-'EOF'
		import os, select, sys
		objects = [bytes(200) for i in range(200000)]
		block = bytearray(b"x") * (64 << 20)
		reader, writer = os.pipe()
		poll = select.epoll()
		poll.register(0)
		print("ready", flush=True)
		poll.poll(60)
		assert sum(map(len, objects)) == 200 * 200000 and block.count(b"x") == 64 << 20
		print("done", flush=True)
	EOF
	mkfifo input
	python3 service.py <input >out 2>err 3>&- &
	local pid=$!
	exec 4>input
	wait_until grep -q ready out
	run --separate-stderr "${TLBCOST}" run --thp --json "${REACHED}" --pid "${pid}"
	echo "${stderr}"
	((status == 0))
	cp "/proc/${pid}/smaps_rollup" "${SMAPS}"
	(($(of_smaps AnonHugePages) >= 60 << 10))
	(($(reached huge_bytes) >= 60 << 20))
	[[ ${stderr} == *"of process ${pid}'s anonymous memory are on huge pages now; before, "* ]]
	(($(traced_by "${pid}") == 0))
	echo >&4
	exec 4>&-
	wait "${pid}"
	grep -q "done" out
}

pid_refused() { # <pid> <words>...
	run --separate-stderr "${TLBCOST}" run --thp --pid "$1"
	kill "$1"
	((status == 4))
	answers 0 "${@:2}" -- echo "${stderr}"
}

@test "a process that cannot be served is refused, and why" {
	answers --apart 1 "there is no process 4194303" -- "${TLBCOST}" run --thp --pid 4194303
	python3 -c 'import ctypes, time; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); print(flush=True)
time.sleep(60)' >out 3>&- &
	wait_until test -s out
	pid_refused "$!" "turned transparent huge pages off for itself"
	python3 "${BATS_TEST_DIRNAME}/../thp/deny.py" 28 sleep 60 3>&- &
	wait_until grep -q '^Seccomp:.*2' "/proc/$!/status"
	pid_refused "$!" "its system calls are limited (seccomp)" "hint:"
	"${TLBCOST}" run --thp -- sh -c 'echo $$; exec sleep 60' >pid 2>err 3>&- &
	wait_until test -s pid
	pid_refused "$(<pid)" "traces it already"
	# A thread of the kernel.
	[[ $(cat /proc/2/comm 2>/dev/null) == kthreadd ]] || skip "sees no thread of the kernel"
	run -4 --separate-stderr "${TLBCOST}" run --thp --pid 2
}

# bats test_tags=long
@test "a trial with it is proven" {
	run --separate-stderr timeout 300 "${TLBCOST}" trial --no-estimate --pairs 3 --with run-thp \
		-- "${MEMORY}" steps 1200
	echo "${stderr}"
	((status == 0))
	# Lines end where there is no more room.
	stderr=$(tr -s ' \n' ' ' <<<"${stderr}")
	[[ ${stderr} == *"run-thp"*"memory was on huge pages (3 pairs"* ]]
	[[ ${stderr} != *"not proven to be"* ]]
}
