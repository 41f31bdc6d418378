# SPDX-License-Identifier: GPL-2.0-or-later
# How is a release of Debian installed in a folder, and used?  Sourced, never run.
# shellcheck shell=bash
# The script that sources this says where the source is, and which process `isolated` waits for.
# shellcheck disable=SC2154
running=""

# Why no release can be used here; nothing if one can.
obstacle() {
	local program uid
	uid=$(id -u)
	if ((uid != 0)); then
		printf 'not root'
		return 0
	fi
	for program in apt-get debootstrap git unshare; do
		if ! type -P "${program}" >/dev/null; then
			printf 'no %s' "${program}"
			return 0
		fi
	done
	git -C "${tree}" rev-parse --verify --quiet HEAD >/dev/null || printf 'not a git checkout'
}

# Run a command with its own mounts and processes: whatever it leaves of them ends with it, or
# with this script.
isolated() { # <command>...
	local code=0
	unshare --mount --pid --fork --kill-child -- "$@" </dev/null &
	running=$!
	wait "${running}" || code=$?
	running=""
	return "${code}"
}

# Run a command in a release.  Its environment is a login's, plus the network settings.
inside() { # <root> <command>...
	local root=$1 name
	local variables=(HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
	shift
	while IFS= read -r name; do
		case ${name,,} in
		http_proxy | https_proxy | no_proxy | all_proxy | pip_*) variables+=("${name}=${!name}") ;;
		*) ;;
		esac
	done < <(compgen -e || true)
	# The folder becomes a mount, so that /proc/mounts has a "/".
	# shellcheck disable=SC2016  # the inner shell's arguments
	isolated bash -ec '
		mount --bind "$0" "$0"
		mount -t proc proc "$0/proc"
		mount --rbind /sys "$0/sys"
		mount --rbind /dev "$0/dev"
		cd "$0"
		exec chroot . "$@"' "${root}" env -i "${variables[@]}" "$@"
}

# Install a release, unless it is there.
# shellcheck disable=SC2310  # its commands are joined by &&
bootstrap() { # <release> <mirror> <root> [<option of debootstrap>...]
	local release=$1 mirror=$2 root=$3
	shift 3
	[[ ! -e ${root}.installed ]] || return 0
	rm -rf --one-file-system "${root}" &&
		isolated debootstrap "$@" --variant=minbase --include=ca-certificates,make \
			"${release}" "${root}" "${mirror}" &&
		touch "${root}.installed"
}

# Bring the release up to date, and put a clean checkout into it, where any user can read it.
# shellcheck disable=SC2310,SC2312  # its commands are joined by &&; what is not a checkout is refused before
put_source() { # <root>
	inside "$1" apt-get -q update &&
		inside "$1" apt-get -q -y dist-upgrade &&
		rm -rf --one-file-system "$1/usr/src/tlbcost" &&
		mkdir "$1/usr/src/tlbcost" &&
		git -C "${tree}" archive HEAD | tar -x -C "$1/usr/src/tlbcost"
}

# How this system reaches the network: names, proxies, certificates, pip's sources.
hand_in() { # <root>
	local file
	for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /usr/local/share/ca-certificates/*.crt; do
		[[ ! -e ${file} ]] || install -D -m 644 -- "${file}" "$1${file}" || return
	done
	# A mirror may be behind by more than the week that sid's lists are valid for.
	{
		apt-config dump Acquire::http Acquire::https
		printf 'Acquire::Check-Valid-Until "false";\n'
	} >"$1/etc/apt/apt.conf.d/90outer" &&
		inside "$1" update-ca-certificates
}

# Interrupted, a script leaves no process and no mount.
leave_nothing() {
	trap '[[ -z ${running} ]] || kill -KILL "${running}"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
}
