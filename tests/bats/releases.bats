#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Does check-releases say how each release fared?  Every program that it needs is a made-up one.

load common

setup() {
	FOLDER=${BATS_TEST_TMPDIR}/tree/build/releases
	fake_releases
	fake_program git 'tar -c -T /dev/null'
	fake_program debootstrap 'mkdir -p "${@: -2:1}"/{usr/src,etc/apt/apt.conf.d} && echo "installed ${*: -3}"'
	in_release 'echo "3 passed, 0 failed, 1 skipped"'
}

# What `make check` does in a release.
in_release() { # <text>
	fake_program chroot "case \"\$*\" in *'tlbcost check') $1 ;; esac"
}

check_releases() {
	"${BATS_TEST_TMPDIR}/tree/scripts/check-releases" "$@"
}

@test "check-releases: a line with the totals of each release, and a log" {
	run -0 --separate-stderr check_releases trixie sid
	[[ ${output} == "trixie: 3 passed, 0 failed, 1 skipped
sid: 3 passed, 0 failed, 1 skipped" ]]
	grep -q "^installed trixie .*/trixie mirror:/debian$" "${FOLDER}/trixie.log"
	grep -q "some proxy" "${FOLDER}/sid/etc/apt/apt.conf.d/90outer"
}

@test "check-releases: a release is installed once" {
	run -0 check_releases trixie
	run -0 check_releases trixie
	run ! grep "^installed" "${FOLDER}/trixie.log"
}

@test "check-releases: a test that fails in one release fails the whole" {
	in_release 'echo "3 passed, 1 failed, 0 skipped"; [[ $* == *sid* ]] || exit 2'
	run -1 --separate-stderr check_releases trixie
	[[ ${output} == "trixie: 3 passed, 1 failed, 0 skipped" ]]
}

@test "check-releases: what failed before any test is said" {
	in_release 'exit 2'
	run -1 --separate-stderr check_releases trixie
	[[ ${output} == "trixie: failed: make check, see ${FOLDER}/trixie.log" ]]
	rm "${FOLDER}/trixie.installed"
	fake_program debootstrap 'exit 1'
	run -1 --separate-stderr check_releases trixie
	[[ ${output} == "trixie: failed: cannot install the release, see "* ]]
	[[ ! -e ${FOLDER}/trixie.installed ]]
}

@test "check-releases: skipped, with the reason, where it cannot be" {
	fake_program id 'echo 1000'
	run -0 --separate-stderr check_releases trixie
	[[ ${output} == "trixie: skipped: not root" ]]
	fake_program id 'echo 0'
	printf 'ID=ubuntu\nVERSION_CODENAME=noble\n' >"${TLBCOST_ROOT}/etc/os-release"
	run -0 --separate-stderr check_releases trixie
	[[ ${output} == "trixie: skipped: "*"apt is not Debian's (ubuntu)" ]]
	fake_program git 'exit 128'
	run -0 --separate-stderr check_releases trixie
	[[ ${output} == "trixie: skipped: not a git checkout" ]]
}

@test "check-releases: interrupted, it leaves nothing running" {
	in_release 'echo $$ >"${BATS_TEST_TMPDIR}/pid"; exec sleep 1000'
	export BATS_TEST_TMPDIR
	"${BATS_TEST_TMPDIR}/tree/scripts/check-releases" trixie 3>&- &
	local pid=$!
	wait_until test -s "${BATS_TEST_TMPDIR}/pid"
	kill -TERM "${pid}"
	ended_with 143
	wait_until has_ended "$(<"${BATS_TEST_TMPDIR}/pid")"
}
