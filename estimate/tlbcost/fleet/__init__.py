# SPDX-License-Identifier: GPL-2.0-or-later
"""How many hosts of a fleet would gain from huge pages, by counts taken on all of them?

`review_counts` estimates each host and service, and adds them up by service and machine;
`convert_logs` makes the rows of a log of `perf stat -j -I`.
"""
