#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Why is there no kernel for the emulated machine?  apt is a made-up one.

load common

setup() {
	type -P apt-get dpkg-deb >/dev/null || skip "no apt-get"
	export TLBCOST_ROOT=${BATS_TEST_TMPDIR}/root TMPDIR=${BATS_TEST_TMPDIR}/tmp
	mkdir -p "${TLBCOST_ROOT}"/{etc,usr/share/keyrings} "${TMPDIR}" "${BATS_TEST_TMPDIR}/bin"
	printf 'ID=debian\nVERSION_CODENAME=old\n' >"${TLBCOST_ROOT}/etc/os-release"
	: >"${TLBCOST_ROOT}/usr/share/keyrings/debian-archive-keyring.gpg"
	PATH=${BATS_TEST_TMPDIR}/bin:${PATH}
	fake_apt "echo no network >&2; exit 100"
}

fake_apt() { # <what it does but for telling of the mirror>
	cat >"${BATS_TEST_TMPDIR}/bin/apt-get" <<-EOF
		#!/bin/sh
		case "\$*" in
		*--print-uris*) echo "'mirror:/debian/dists/old/InRelease' old_InRelease 0" ;;
		*) $1 ;;
		esac
	EOF
	chmod +x "${BATS_TEST_TMPDIR}/bin/apt-get"
}

packages() {
	"${TREE}/scripts/foreign-packages" newer riscv64 "${BATS_TEST_TMPDIR}/out" some-package
}

nothing_left() {
	[[ -z $(find "${TMPDIR}" -mindepth 1) ]]
	[[ -z $(find "${BATS_TEST_TMPDIR}/out" -type f 2>/dev/null) ]]
}

@test "another distribution's apt is reported" {
	printf 'ID=ubuntu\nVERSION_CODENAME=noble\n' >"${TLBCOST_ROOT}/etc/os-release"
	run -1 packages
	[[ ${output} == "tlbcost: cannot get Debian's packages: "*"(ubuntu)" ]]
	nothing_left
}

@test "without Debian's keys, the message names the package that has them" {
	rm "${TLBCOST_ROOT}/usr/share/keyrings/debian-archive-keyring.gpg"
	run -1 packages
	[[ ${output} == *"cannot check Debian's signatures: "*"hint: apt-get install debian-archive-keyring" ]]
	nothing_left
}

@test "without a network, apt's reason and ours are reported and nothing is left" {
	answers 1 "no network" "tlbcost: cannot read the list of newer's packages for riscv64" -- packages
	nothing_left
}

@test "a package that is not there leaves nothing" {
	fake_apt 'case "$*" in *update*) ;; *) echo no such package >&2; exit 100 ;; esac'
	answers 1 "no such package" "cannot download newer's some-package for riscv64" -- packages
	nothing_left
}

@test "apt is given a world of its own, with the system's mirror" {
	fake_apt 'cat "${APT_CONFIG%/*}"/sources.list "${APT_CONFIG%/*}"/main.conf >&2; exit 100'
	run -1 packages
	[[ ${output} == *"deb [arch=riscv64 target=Packages lang=none signed-by=${TLBCOST_ROOT}/usr/"*"] mirror:/debian newer main"* ]]
	[[ ${output} != *'"/var/'* ]]
	nothing_left
}

@test "the fetch keeps the reason for the tests that are skipped" {
	run -1 "${TREE}/tests/guest/fetch" "${BATS_TEST_TMPDIR}/guest"
	[[ $(cat "${BATS_TEST_TMPDIR}/guest/why") == *"cannot read the list of trixie's packages for riscv64"* ]]
	[[ $(ls "${BATS_TEST_TMPDIR}/guest") == why ]]
}
