#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A redis server with one million keys, asked for random ones, then shut down: one run of a service
# for `tlbcost estimate`.
set -Eeuo pipefail

main() {
	local keys=${1:-1000000} requests=${2:-200000} folder socket server
	folder=$(mktemp -d)
	# shellcheck disable=SC2064  # the name is known now
	trap "rm -rf -- '${folder}'" EXIT
	socket=${folder}/redis.sock
	redis-server --port 0 --unixsocket "${socket}" --save "" --appendonly no \
		--enable-debug-command yes >/dev/null &
	server=$!
	until [[ -S ${socket} ]]; do
		kill -0 "${server}"
		sleep 0.1
	done
	redis-cli -s "${socket}" DEBUG POPULATE "${keys}" key 100
	redis-benchmark -s "${socket}" -q -P 32 -r "${keys}" -n "${requests}" GET key:__rand_int__
	redis-cli -s "${socket}" SHUTDOWN NOSAVE
	wait "${server}"
}

main "$@"
