#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Do install-deps and install-files put in place what is needed, and say what they cannot?

load common

setup() {
	FAKES=${BATS_TEST_TMPDIR}/fakes
	RECORD=${BATS_TEST_TMPDIR}/record
	mkdir "${FAKES}"
	cd "${BATS_TEST_TMPDIR}" || return
}

teardown() {
	# A test that failed half-way must not leave its disk behind.
	umount "${BATS_TEST_TMPDIR}/disk" 2>/dev/null || true
}

# A program of the bare machine that runs the given Bash text.
fake() { # <name> <text>
	rm -f "${FAKES:?}/$1"
	printf '#!/bin/bash\n%s\n' "$2" >"${FAKES}/$1"
	chmod +x "${FAKES}/$1"
}

# A PATH that holds the basic tools and what install-deps looks for, but not <missing>.
# Nothing on it can install for real.
bare_machine() { # <missing>...
	local tool
	for tool in bash env readlink id cat mkdir touch chmod \
		bats g++ ld gcc gnuplot gzip hugectl make shellcheck sqlite3 valgrind xz; do
		[[ " $* " == *" ${tool} "* ]] || ln -sf "$(type -P "${tool}")" "${FAKES}/${tool}"
	done
	# Not a link: the python3 of PATH may be a script that needs the whole of it.
	[[ " $* " == *" python3 "* ]] || fake python3 "exec $(
		python3 -c 'import sys; print(sys.executable)') \"\$@\""
}

# An apt-get that keeps a record and, at the install that is no simulation, runs some Bash.
fake_apt_get() { # <what to do on install>
	fake apt-get "echo \"\$*\" >>${RECORD@Q}
		case \" \$* \" in
		*' --simulate '*) exit 0 ;;
		*' install '*) cd ${FAKES@Q}; $1 ;;
		esac"
}

install_deps() {
	PATH=${FAKES} "${TREE}/scripts/install-deps" "$@"
}

@test "install-deps: nothing is done, quietly, where all is there" {
	need_program bats g++ ld gcc gnuplot gzip hugectl make python3 shellcheck sqlite3 valgrind xz
	bare_machine
	fake_apt_get 'exit 1'
	run -0 install_deps
	[[ ${output} == "" ]]
	[[ ! -e ${RECORD} ]]
}

@test "install-deps: installs what is missing, and no more" {
	need_root
	bare_machine gnuplot xz
	fake_apt_get 'for n in gnuplot xz; do touch $n; chmod +x $n; done'
	run -0 install_deps
	[[ $(tail -n 1 "${RECORD}") == *"install --no-install-recommends gnuplot-nox xz-utils" ]]
	[[ $(<"${RECORD}") != *" update"* ]]
}

@test "install-deps: fetches the package lists when there are none, then installs" {
	need_root
	bare_machine gnuplot
	fake apt-get "echo \"\$*\" >>${RECORD@Q}
		[[ \$* != *update* ]] || exec touch ${BATS_TEST_TMPDIR@Q}/lists
		[[ -e ${BATS_TEST_TMPDIR@Q}/lists ]] || exit 100
		cd ${FAKES@Q}; touch gnuplot; chmod +x gnuplot"
	run -0 install_deps
	[[ $(<"${RECORD}") == *simulate*update*install* ]]
}

@test "install-deps: an installation that fails: exit 1, what failed, what to do" {
	need_root
	bare_machine gnuplot
	fake_apt_get 'echo "E: no network" >&2; exit 100'
	answers 1 "E: no network" "tlbcost: cannot install gnuplot-nox: apt-get failed" -- install_deps
	[[ ${output} == *"tlbcost: hint: "*"scripts/install-deps" ]]
}

@test "install-deps: a package that does not bring what it should is not trusted" {
	need_root
	bare_machine gnuplot
	fake_apt_get 'exit 0'
	answers 1 "still missing after the installation: gnuplot" -- install_deps
}

@test "install-deps: not root: exit 1 with the exact command" {
	bare_machine gnuplot valgrind
	fake_apt_get 'exit 1'
	fake id 'echo 1000'
	run -1 install_deps
	[[ ${lines[0]} == "tlbcost: cannot install gnuplot-nox valgrind: not root" ]]
	[[ ${lines[1]} == "tlbcost: hint: sudo apt-get install --no-install-recommends gnuplot-nox valgrind" ]]
	[[ ! -e ${RECORD} ]]
}

@test "install-deps: no apt: exit 1 with what to install by hand" {
	bare_machine gnuplot valgrind
	answers 1 "this system has no apt-get" "gnuplot" "valgrind" -- install_deps
	[[ ${output} != *sqlite3* ]]
}

@test "install-deps: valgrind without its headers and libraries is not enough" {
	bare_machine
	export TLBCOST_ROOT=${BATS_TEST_TMPDIR}/root
	mkdir -p "${TLBCOST_ROOT}/usr/include"
	touch "${TLBCOST_ROOT}/usr/include/stdio.h"
	answers 1 "valgrind's headers for tools" "valgrind's static libraries" -- install_deps
}

@test "install-deps: python3 that cannot make an environment, or is too old" {
	bare_machine python3
	fake python3 '[[ $* != *ensurepip* ]]'
	answers 1 "python3's venv and ensurepip modules" -- install_deps
	fake python3 'case "$*" in *version_info*) exit 1 ;; --version) echo Python 3.9.2 ;; esac'
	answers 1 "python3 is older than 3.11: Python 3.9.2" -- install_deps
}

@test "install-deps --all: installs what only some tests need, and continues without it" {
	need_root
	bare_machine
	ln -s "$(type -P true)" "${FAKES}/aarch64-linux-gnu-gcc"
	fake_apt_get 'exit 100'
	run -0 install_deps
	[[ ${output} == "" && ! -e ${RECORD} ]]
	run -0 install_deps --all
	[[ $(<"${RECORD}") == *" install --no-install-recommends"*" tmux zsh "*" qemu-user"$'\n'*" install "*" chromium poppler-utils" ]]
	[[ ${output} == *"tlbcost: tests in a browser will be skipped: cannot install chromium poppler-utils: apt-get failed"* ]]
	[[ ${output} == *"tlbcost: some tests will be skipped: cannot install "*"qemu-user: apt-get failed"* ]]
	fake id 'echo 1000'
	rm "${RECORD}"
	run -0 install_deps --all
	[[ ${output} == *"cannot install "*"qemu-user: not root"* && ! -e ${RECORD} ]]
	rm "${FAKES}/apt-get"
	answers 0 "cannot install " "qemu-user: this system has no apt-get" -- install_deps --all
}

@test "install-deps --all: of a package's names, the one that this release has" {
	local here
	need_root
	bare_machine
	fake_apt_get 'exit 100'
	for here in qemu-system-riscv qemu-system-misc; do
		fake apt-cache "[[ \$* == *${here} ]]"
		rm -f "${RECORD}"
		run -0 install_deps --all
		[[ $(<"${RECORD}") == *" ${here} qemu-user"$'\n'* ]]
	done
	# Where nothing is known of any package.
	fake apt-cache 'exit 100'
	rm -f "${RECORD}"
	run -0 install_deps --all
	[[ $(<"${RECORD}") == *" qemu-system-misc qemu-user"$'\n'* ]]
}

@test "install-deps --accuracy: installs the programs of the suite, and continues without them" {
	need_root
	bare_machine
	ln -s "$(type -P true)" "${FAKES}/brotli"
	fake_apt_get 'exit 100'
	run -0 install_deps --accuracy
	[[ $(tail -n 1 "${RECORD}") == *" install --no-install-recommends cppcheck "*" xsltproc" ]]
	[[ $(<"${RECORD}") != *brotli* && $(<"${RECORD}") != *qemu* ]]
	[[ ${output} == *"tlbcost: some programs of the suite will be left out: cannot install cppcheck "* ]]
}

@test "install-files: the installed command works from anywhere and through a link" {
	need_built venv/.run tlbcost libexec/tlbcost-run completions/tlbcost
	local root="${BATS_TEST_TMPDIR}/with blank"
	run -0 "${TREE}/scripts/install-files" "${root}" /opt/tlbcost "${BUILD}"
	local home=${root}/opt/tlbcost/lib/tlbcost
	[[ -x ${home}/libexec/tlbcost-run && -e ${root}/opt/tlbcost/include/tlbcost-marker.h ]]
	[[ $(<"${home}/VERSION") == $(<"${TREE}/VERSION") ]]
	[[ -d ${home}/data/machines && -d ${home}/plots ]]
	[[ $(ls "${root}/opt/tlbcost/lib") == tlbcost ]]
	local share=${root}/opt/tlbcost/share
	[[ -s ${share}/bash-completion/completions/tlbcost && -s ${share}/zsh/site-functions/_tlbcost ]]
	[[ -s ${share}/fish/vendor_completions.d/tlbcost.fish && -s ${share}/man/man1/tlbcost.1 ]]
	ln -s "${root}/opt/tlbcost/bin/tlbcost" "${BATS_TEST_TMPDIR}/link"
	cd /
	run -0 "${BATS_TEST_TMPDIR}/link" --version
	[[ ${output} == "tlbcost $(<"${TREE}/VERSION")" ]]
	answers 0 "usage: tlbcost doctor" -- "${root}/opt/tlbcost/bin/tlbcost" doctor --help
	# Nothing is looked for in the source tree.
	run -0 places "${home}"
	[[ ${output} != *"${TREE}"* ]]
	# The article's scripts run the installed probe, wherever they are called from.
	printf '#!/bin/sh\nexit 4\n' >"${home}/libexec/tlbcost-calibrate"
	run -4 "${root}/opt/tlbcost/bin/run-calibrator.sh"
	run -4 "${root}/opt/tlbcost/bin/tlbmiss_cost.sh" -v
	# A second installation takes the place of the first.
	touch "${home}/python/tlbcost/stale.py"
	run -0 "${TREE}/scripts/install-files" "${root}" /opt/tlbcost "${BUILD}"
	[[ ! -e ${home}/python/tlbcost/stale.py ]]
}

# Where the installed package says that its parts are, and where its packages come from.
places() { # <installed folder>
	"${BUILD}/venv/bin/python" -I -S -c 'import sys
sys.path.insert(0, sys.argv[1] + "/python")
from tlbcost.common import paths
import pandas, rich
print(paths.libexec("x"), paths.valgrind_lib(), paths.data("x"), paths.plot("x"), pandas.__file__)
print(paths.version())' "$1"
}

@test "install-files: refuses a relative PREFIX and an unbuilt tree" {
	run -1 "${TREE}/scripts/install-files" "" opt "${BUILD}"
	[[ ${output} == *"PREFIX is not an absolute path: opt"*"hint: make install PREFIX="* ]]
	run -1 "${TREE}/scripts/install-files" "${BATS_TEST_TMPDIR}" /opt "${BATS_TEST_TMPDIR}"
	[[ ${output} == *"cannot install: no ${BATS_TEST_TMPDIR}/venv/bin/python"*"hint: type make first"* ]]
	run -1 "${TREE}/scripts/install-files"
}

@test "install-files: a full disk leaves the old installation as it was" {
	need_root
	need_built venv/.run tlbcost libexec/tlbcost-run
	local disk=${BATS_TEST_TMPDIR}/disk
	mkdir "${disk}"
	mount -t tmpfs -o size=10m tlbcost-test "${disk}" 2>/dev/null || skip "cannot mount a tmpfs"
	mkdir -p "${disk}/opt/lib/tlbcost"
	echo old >"${disk}/opt/lib/tlbcost/VERSION"
	local code=0
	"${TREE}/scripts/install-files" "${disk}" /opt "${BUILD}" >log 2>&1 || code=$?
	ls -A "${disk}/opt/lib" >names
	cp "${disk}/opt/lib/tlbcost/VERSION" version
	umount "${disk}"
	((code == 1))
	[[ $(<names) == tlbcost ]]
	[[ $(<version) == old ]]
	[[ $(<log) == *"No space left on device"*"tlbcost: installation failed"* ]]
	(($(wc -l <log) <= 4))
}
