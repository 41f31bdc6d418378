#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long,settings
# Is the allocator of a real program recognised, and does the first remedy that its estimate gives,
# followed to the letter, put its memory onto huge pages?  By what the kernel's smaps shows.

load common

THP=/sys/kernel/mm/transparent_hugepage
LIBRARIES=/usr/lib/$(uname -m)-linux-gnu

setup_file() {
	make_memory allocators
}

setup() {
	need_built tlbcost libexec/tlbcost-run libexec/valgrind venv/bin/python
	need_program cc valgrind
	[[ $(sed 's/.*\[\(.*\)\].*/\1/' "${THP}/enabled") == madvise ]] ||
		skip "needs transparent huge pages on request (madvise)"
	unset MALLOC_CONF JAVA_TOOL_OPTIONS LD_PRELOAD
	export SMAPS=${BATS_TEST_TMPDIR}/smaps
	PATH=${BUILD}:${PATH}
	cd "${BATS_TEST_TMPDIR}" || return
	dear_walks >dear.tsv
}

need_file() { # <file>
	[[ -e $1 ]] || skip "needs $1"
}

need_glibc_tunable() {
	local version
	version=$(getconf GNU_LIBC_VERSION 2>/dev/null) || skip "needs glibc"
	((${version#*.} >= 35)) || skip "needs glibc 2.35"
}

need_run_thp() {
	need_built libexec/tlbcost-thp
	[[ $(uname -m) == x86_64 ]] || skip "tlbcost run --thp is of x86-64"
}

# Estimate a program; what is advised for most of its memory is in estimate.json.
estimate() { # <command>...
	tlbcost estimate --backend sim --runs 1 --calibration dear.tsv \
		--json estimate.json --output estimate.txt -- "$@" >program.txt
	cat estimate.txt
}

# Of the first advice: who allocated the memory, the names of its remedies, or a part of the first.
advised() { # allocated_by|codes|steps|proof
	"${BUILD}/venv/bin/python" - "$1" <<-'PYTHON'
		import json, sys
		advice = json.load(open("estimate.json"))["what_to_do"][0]
		match sys.argv[1]:
		    case "allocated_by":
		        print(advice["allocated_by"])
		    case "codes":
		        print(*(each["code"] for each in advice["remedies"]))
		    case part:
		        value = advice["remedies"][0][part]
		        print(*(value if isinstance(value, list) else [value]), sep="\n")
	PYTHON
}

allocated_by() { # <words>
	echo "allocated by: $(advised allocated_by)"
	[[ $(advised allocated_by) == "$1" ]]
}

# The remedy that the report shows, and no switch of another allocator, which would do nothing.
first_is() { # <code> [<another switch of the same>]
	local codes each
	codes=" $(advised codes) "
	echo "advised:${codes}"
	[[ ${codes} == " $1 "* ]]
	for each in glibc-thp jemalloc-thp mimalloc-thp java-thp python-malloc; do
		[[ ${each} == "$1" || ${each} == "${2:-}" || ${codes} != *" ${each} "* ]]
	done
}

# Where no switch is known there is tlbcost's own way, whose proof is thp.bats.
no_switch_is_known() {
	local codes each
	codes=" $(advised codes) "
	echo "advised:${codes}"
	for each in glibc-thp glibc-pool glibc-top-pad jemalloc-thp mimalloc-thp java-thp python-malloc; do
		[[ ${codes} != *" ${each} "* ]]
	done
	[[ ! -e ${BUILD}/libexec/tlbcost-thp || $(uname -m) != x86_64 || ${codes} == " run-thp "* ]]
}

# No lines of C for a program that is not written in C.
no_code_is_advised() {
	[[ $(advised codes) != *madvise* && $(advised codes) != *collapse* ]]
	[[ $(advised codes) != *map-hugetlb* ]]
}

# Type what is advised first.
follow() {
	local steps
	steps=$(advised steps)
	printf '%s\n' "${steps}"
	bash -euc "${steps}" 3>&- >/dev/null
}

# The share of the anonymous memory that is on huge pages, in %.
covered() {
	awk '$1 == "Anonymous:" { n += $2 } $1 == "AnonHugePages:" { huge += $2 }
		END { if (!n) exit 1; print int(100 * huge / n) }' "${SMAPS}"
}

proven() { # [<least %>]
	echo "on huge pages: $(covered) %"
	(($(covered) >= ${1:-85}))
}

# The same program has next to none without the remedy.
missing_without() { # <command>...
	"$@" >/dev/null
	echo "on huge pages without the remedy: $(covered) %"
	(($(covered) <= 15))
}

# A program's allocator has a switch, which is what is advised first; by it, its memory is covered.
switched() { # <allocator> <code> <least %> <command>...
	estimate "${@:4}"
	allocated_by "$1"
	first_is "$2"
	follow
	proven "$3"
}

# None is known, but tlbcost's own way serves where there is one.
without_switch() { # <allocator> <least %> <command>...
	estimate "${@:3}"
	allocated_by "$1"
	no_switch_is_known
	[[ -e ${BUILD}/libexec/tlbcost-thp && $(uname -m) == x86_64 ]] || return 0
	follow
	proven "$2"
}

@test "glibc: a large block, and a heap that grows by brk" {
	need_glibc_tunable
	local kind
	for kind in malloc steps; do
		missing_without "${MEMORY}" "${kind}" 0
		switched "glibc's malloc" glibc-thp 85 "${MEMORY}" "${kind}" 0
		[[ ${kind} == steps || $(advised proof) == "tlbcost trial --with glibc-thp -- ${MEMORY} malloc 0" ]]
	done
}

@test "glibc: blocks that are mapped one by one, smaller than what whole huge pages fit into" {
	need_glibc_tunable
	estimate "${MEMORY}" blocks 300
	allocated_by "glibc's malloc"
	first_is glibc-thp
	[[ $(advised steps) == *glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=* ]]
	# By the first tunable alone there would be none.
	missing_without env GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "${MEMORY}" blocks 0
	follow
	proven
	# What proves it runs, and finds the memory covered.
	bash -euc "$(advised proof | sed 's/--with/--no-estimate --pairs 3 --with/')" 2>trial.txt >/dev/null
	[[ $(<trial.txt) != *"huge pages not proven"* ]]
}

@test "glibc: arenas of threads, which no tunable serves" {
	estimate "${MEMORY}" arena 300
	allocated_by "glibc's malloc"
	[[ " $(advised codes) " != *" glibc-thp "* ]]
	need_run_thp
	first_is run-thp
	follow
	proven
}

@test "glibc: a static executable" {
	need_glibc_tunable
	cc -std=c11 -D_GNU_SOURCE -O1 -pthread -static -o static "${TREE}/tests/backing/memory.c" ||
		skip "needs a static C library"
	switched "glibc's malloc" glibc-thp 85 ./static malloc 0
}

@test "memory that a program maps for itself is not malloc's" {
	without_switch "the program itself (mmap)" 85 "${MEMORY}" mmap 300
	[[ " $(advised codes) " == *" madvise "* ]]
}

@test "jemalloc: preloaded, by MALLOC_CONF" {
	need_file "${LIBRARIES}/libjemalloc.so.2"
	local kind
	for kind in malloc steps; do
		missing_without env LD_PRELOAD="${LIBRARIES}/libjemalloc.so.2" "${MEMORY}" "${kind}" 0
		switched jemalloc jemalloc-thp 85 env LD_PRELOAD="${LIBRARIES}/libjemalloc.so.2" "${MEMORY}" "${kind}" 0
	done
}

@test "jemalloc: linked statically, its options kept" {
	need_file "${LIBRARIES}/libjemalloc.a"
	cc -std=c11 -D_GNU_SOURCE -O1 -pthread -o static "${TREE}/tests/backing/memory.c" \
		"${LIBRARIES}/libjemalloc.a" -lm -ldl -lstdc++ || skip "libjemalloc.a cannot be linked with"
	strip static
	export MALLOC_CONF=background_thread:false
	switched jemalloc jemalloc-thp 85 ./static malloc 0
	[[ $(advised steps) == MALLOC_CONF=background_thread:false,thp:always,* ]]
}

@test "jemalloc: redis-server" {
	need_program redis-cli redis-check-rdb
	ldd "$(type -P redis-check-rdb)" | grep -q jemalloc || skip "needs a redis with jemalloc"
	# Debian's server is a link to it.
	ln -s "$(type -P redis-check-rdb)" redis-server
	cat >serve <<-'BASH'
		#!/bin/bash
		# A server that is filled, and asked to end.
		cli() { redis-cli -s "${PWD}/socket" "$@"; }
		./redis-server --port 0 --unixsocket "${PWD}/socket" --save "" --enable-debug-command yes &
		until [[ $(cli ping 2>/dev/null) == PONG ]]; do sleep 0.1; done
		cli debug populate 600000 key 64
		sleep 0.3
		cat "/proc/$!/smaps" >"${SMAPS}"
		cli shutdown nosave
		wait
	BASH
	chmod +x serve
	missing_without ./serve
	switched jemalloc jemalloc-thp 80 ./serve
	no_code_is_advised
}

@test "tcmalloc (gperftools) has no switch" {
	need_file "${LIBRARIES}/libtcmalloc_minimal.so.4"
	without_switch tcmalloc 85 env LD_PRELOAD="${LIBRARIES}/libtcmalloc_minimal.so.4" "${MEMORY}" malloc 300
}

@test "mimalloc: by its environment, or it asks by itself" {
	local library
	for library in "${LIBRARIES}"/libmimalloc.so.[23]; do
		[[ -e ${library} ]] && break
	done
	need_file "${library}"
	env LD_PRELOAD="${library}" "${MEMORY}" malloc 0
	if (($(covered) >= 85)); then
		skip "this mimalloc asks by itself"
	fi
	switched mimalloc mimalloc-thp 85 env LD_PRELOAD="${library}" "${MEMORY}" malloc 0
}

@test "musl has no switch" {
	need_program musl-gcc
	musl-gcc -D_GNU_SOURCE -O1 -pthread -o musl "${TREE}/tests/backing/memory.c"
	without_switch "musl's malloc" 85 ./musl malloc 300
}

@test "Go's runtime has no switch" {
	go_program hog
	without_switch "Go's runtime" 85 ./hog
	no_code_is_advised
}

@test "Java: by the option of its heap" {
	need_program java javac
	javac -d . "${TREE}/tests/backing/Hog.java"
	# Fewer threads: the simulation runs one at a time.
	estimate java -Xmx200m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp . Hog
	allocated_by "the Java VM"
	first_is java-thp
	[[ $(advised steps) == "java -XX:+UseTransparentHugePages "* ]]
	[[ $(advised proof) == "tlbcost trial --with env:JAVA_TOOL_OPTIONS=-XX:+UseTransparentHugePages "* ]]
	no_code_is_advised
	missing_without java -Xmx200m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp . Hog
	follow
	proven 80
}

@test "node: objects are V8's, which has no switch" {
	need_program node
	cat >objects.js <<-'JS'
		const fs = require("fs"), held = [];
		for (let i = 0; i < 500000; i++) held.push({ x: i, y: [i, i + 1] });
		if (process.env.SMAPS)
			fs.writeFileSync(process.env.SMAPS, fs.readFileSync("/proc/self/smaps"));
		setTimeout(() => console.log(held.length), 300);
	JS
	missing_without node objects.js
	# Memory of its threads, and of code, is too small; and small objects leave pieces of blocks.
	without_switch V8 40 node objects.js
	no_code_is_advised
}

@test "node: typed arrays are malloc's" {
	need_program node
	need_glibc_tunable
	cat >typed.js <<-'JS'
		const fs = require("fs"), held = new Float64Array(16 << 20).fill(1);
		if (process.env.SMAPS)
			fs.writeFileSync(process.env.SMAPS, fs.readFileSync("/proc/self/smaps"));
		setTimeout(() => console.log(held[7]), 300);
	JS
	switched "glibc's malloc" glibc-thp 80 node typed.js
	no_code_is_advised
}

@test "python: small objects are of its own arenas" {
	local python
	python=$(readlink -f "${BUILD}/venv/bin/python")
	cat >objects.py <<-'PYTHON'
		import os, shutil, time
		held = [str(i) * 3 for i in range(1_200_000)]
		if "SMAPS" in os.environ:
		    with open("/proc/self/smaps") as smaps, open(os.environ["SMAPS"], "w") as copy:
		        shutil.copyfileobj(smaps, copy)
		time.sleep(0.3)
	PYTHON
	estimate "${python}" objects.py
	allocated_by Python
	[[ " $(advised codes) " == *" python-malloc "* ]]
	no_code_is_advised
	missing_without "${python}" objects.py
	need_run_thp
	first_is run-thp python-malloc
	follow
	# Its arenas of 1 MiB do not all lie side by side.
	proven 50
}

@test "python: arrays of numpy, where numpy may not ask, are malloc's" {
	need_glibc_tunable
	local python
	python=$(readlink -f "${BUILD}/venv/bin/python")
	export PYTHONPATH NUMPY_MADVISE_HUGEPAGE=0 OPENBLAS_NUM_THREADS=1
	PYTHONPATH=$("${BUILD}/venv/bin/python" -c 'import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))')
	cat >arrays.py <<-'PYTHON'
		import os, shutil, time
		import numpy
		held = numpy.ones(12 << 20)
		if "SMAPS" in os.environ:
		    with open("/proc/self/smaps") as smaps, open(os.environ["SMAPS"], "w") as copy:
		        shutil.copyfileobj(smaps, copy)
		time.sleep(0.3)
	PYTHON
	estimate "${python}" arrays.py
	allocated_by "glibc's malloc"
	[[ " $(advised codes) " == *" numpy-thp "* ]]
	missing_without "${python}" arrays.py
	follow
	proven 75
}

@test "postgres: its shared buffers from a pool" {
	need_pool
	need_program setpriv
	local postgres folder user=65534
	# Debian's is not on PATH.
	for postgres in /usr/lib/postgresql/*/bin/postgres "$(type -P postgres || true)"; do
		[[ -x ${postgres} && -x ${postgres%/*}/initdb ]] && break
	done
	[[ -x ${postgres} && -x ${postgres%/*}/initdb ]] || skip "needs postgres"
	as_user() { setpriv --reuid="${user}" --regid="${user}" --clear-groups env HOME="${folder}" "$@"; }
	folder=${PROGRAMS}/postgres
	install -d -m 0700 -o "${user}" -g "${user}" "${folder}"
	as_user "${postgres%/*}/initdb" --no-sync -A trust -U tlbcost -D "${folder}/data" >initdb.txt 2>&1 || {
		cat initdb.txt
		skip "this user can run no initdb"
	}
	advise shared "/dev/zero (deleted)" "${postgres}" "${postgres}" -D "${folder}/data"
	remedy postgres-pool steps
	[[ $(remedy postgres-pool steps | tail -n 1) == "huge_pages = on" ]]
	# 64 MiB of buffers, and what comes with them, are less than the 96 MiB of the advice.
	printf '%s\n' "shared_buffers = 64MB" "listen_addresses = ''" \
		"unix_socket_directories = '${folder}'" "$(remedy postgres-pool steps | tail -n 1)" \
		>>"${folder}/data/postgresql.conf"
	bash -euc "$(remedy postgres-pool steps | head -n 1)" 3>&-
	as_user "${postgres}" -D "${folder}/data" >server.txt 2>&1 3>&- &
	local status=0 pid
	wait_until test -S "${folder}/.s.PGSQL.5432" || status=$?
	pid=$(head -n 1 "${folder}/data/postmaster.pid")
	cat "/proc/${pid}/smaps" >"${SMAPS}" || status=$?
	kill -INT "${pid}"
	wait_until has_ended "${pid}" || status=$?
	bash -euc "$(remedy postgres-pool undo)" 3>&-
	cat server.txt
	((status == 0))
	# All of the buffers are mapped from the pool, touched or not.
	awk '/^Size:/ { size = $2 } /^VmFlags:.* ht/ { n += size } END { print n " kB"; exit n < 65536 }' \
		"${SMAPS}"
}

@test "Go: where transparent huge pages are always on, its heap has them" {
	need_root
	go_program hog
	advise anonymous "anonymous memory" "${PWD}/hog" ./hog
	local status=0
	bash -euc "$(remedy thp-always steps)" 3>&- || status=$?
	bash -euc "$(remedy thp-always undo)" 3>&-
	((status == 0))
	proven
}
