# SPDX-License-Identifier: GPL-2.0-or-later
"""Which machine and kernel is this, what do they offer, and what may this user do?

Everything is read below $TLBCOST_ROOT, and nothing is changed.

    machine.current_machine     what a calibration depends on
    machine.read_line           a file under /proc or /sys; and read_number, read_text, selected
    process.stat, status, gone  /proc/PID; and name, owner, children, is_running
    huge_pages.huge_settings what decides which pages memory is on
    hugetlb.pool, check_spare the pools of huge pages, and the memory available for them
    cgroup.memory_limit the memory limit that applies here
    filesystems.mounted         what is mounted, and with which huge pages
    glibc.glibc_version which switches this malloc has
    hints.as_root, install      commands for error hints that work here
    tracing.tracing_rights      which processes may be traced
"""
