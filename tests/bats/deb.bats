#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-or-later
# bats file_tags=long
# Does scripts/deb build what it should, and say how each release fared?  Every program that it needs
# is a made-up one; make check-deb is the real thing.

load common

setup() {
	FOLDER=${BATS_TEST_TMPDIR}/tree/build/deb
	fake_releases
	mkdir -p "${BATS_TEST_TMPDIR}/tree/tests/golden"
	cp "${TREE}/tests/golden/calibration.tsv" "${BATS_TEST_TMPDIR}/tree/tests/golden"
	cp -r "${TREE}/debian" "${TREE}/VERSION" "${BATS_TEST_TMPDIR}/tree"
	fake_program git "case \"\$*\" in
		*archive*) tar -c -C ${BATS_TEST_TMPDIR@Q}/tree debian ;;
		*log*) echo 'Tue, 1 Jan 2030 00:00:00 +0000' ;;
		esac"
	fake_program debootstrap 'mkdir -p "${@: -2:1}"/{usr/src,srv,etc/apt/apt.conf.d}
		echo "VERSION_ID=\"14\"" >"${@: -2:1}/etc/os-release"'
	fake_program dpkg-deb 'case $1 in
		-R) mkdir -p "$3/DEBIAN" "$3/usr/lib/tlbcost/python/tlbcost/machines"
			echo "Version: 1" >"$3/DEBIAN/control"; touch "$3/DEBIAN/md5sums" \
				"$3/usr/lib/tlbcost/python/tlbcost/machines/plan.py" ;;
		-f) echo 1 ;;
		-Znone) cp "$4/DEBIAN/control" "$5" ;;
		esac'
	in_release ''
}

# What chroot does with the commands of a release, after what it always does.
in_release() { # <text>
	fake_program chroot "echo \"in \${PWD##*/}: \$*\"
		case \"\$*\" in
		*dpkg-buildpackage*) touch usr/src/packages/{tlbcost_1_amd64.deb,tlbcost_1.changes,tlbcost_1.buildinfo} ;;
		*deb-steps*) printf 'ok a\\nok b\\n' ;;
		esac
		case \"\$*\" in $1 esac"
}

deb() {
	"${BATS_TEST_TMPDIR}/tree/scripts/deb" "$@"
}

@test "deb build: the package of each release, with a version of its own" {
	run -0 --separate-stderr deb build trixie
	[[ ${output} == "trixie: ${FOLDER}/trixie.packages/tlbcost_1_amd64.deb" ]]
	[[ -e ${FOLDER}/trixie.packages/tlbcost_1.changes ]]
	local changes=${FOLDER}/trixie-build/usr/src/packages/tlbcost/debian/changelog
	[[ $(head -n 1 "${changes}") == "tlbcost ($(<"${TREE}/VERSION")~deb14) unstable; urgency=medium" ]]
	grep -q '^ -- .*>  Tue, 1 Jan 2030 00:00:00 +0000$' "${changes}"
	# What is needed comes before it is built, and lintian looks after that.
	local said
	said=$(<"${FOLDER}/trixie.log")
	[[ ${said} == *"in trixie-build: "*build-dep*dpkg-buildpackage*"lintian --fail-on error,warning"* ]]
}

@test "deb build: what lintian objects to fails, and no package is left to be taken for a good one" {
	in_release '*lintian\ --fail*) exit 1 ;;'
	run -1 --separate-stderr deb build trixie
	[[ ${output} == "trixie: failed: the package is not built, see ${FOLDER}/trixie.log" ]]
	[[ ! -e ${FOLDER}/trixie.packages ]]
}

@test "deb check: tried in another copy of the release, with a next build, and the copy is removed" {
	run -0 --separate-stderr deb check trixie
	[[ ${output} == "trixie: "*"/tlbcost_1_amd64.deb: 2 steps passed" ]]
	grep -q "^in trixie-test: .* /srv/packages/deb-steps$" "${FOLDER}/trixie.log"
	[[ ! -e ${FOLDER}/trixie-test && -d ${FOLDER}/trixie ]]
}

@test "deb check: a step that fails is named, and the others of that release are not tried" {
	in_release '*deb-steps*) [[ ${PWD} != *sid* ]] || { echo "not ok purge"; exit 1; } ;;'
	run -1 --separate-stderr deb check trixie sid
	[[ ${lines[0]} == "trixie: "*" steps passed" ]]
	[[ ${lines[1]} == "sid: failed: it does not pass, see "* && ${lines[2]} == "not ok purge" ]]
}

@test "deb: where it cannot be, the reason; only a check is skipped" {
	fake_program id 'echo 1000'
	run -1 deb build
	[[ ${output} == "skipped: not root" ]]
	run -0 deb check
	[[ ${output} == "skipped: not root" ]]
	run -2 deb
	[[ ${output} == "usage: deb "* ]]
}

@test "deb: two at once would take each other's folders away" {
	mkdir -p "${FOLDER}"
	exec {lock}>"${FOLDER}/lock"
	flock "${lock}"
	answers 1 "tlbcost: cannot build: another one does" "hint: " -- deb build trixie
}
