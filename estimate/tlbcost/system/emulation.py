# SPDX-License-Identifier: GPL-2.0-or-later
"""Is this CPU emulated? Then memory accesses take the emulator's time, and no TLB shows in them."""

from __future__ import annotations

from tlbcost.system.machine import Machine, sys_path


def emulation(machine: Machine) -> str | None:
    """What shows that it is emulated, as a clause; None: nothing does."""
    if machine.cpu_vendor == "0x00":
        return "its implementer is 0x00, which no maker of Arm CPUs has"
    if (machine.cpu_name or "").startswith("QEMU TCG CPU"):
        return f"its name is {machine.cpu_name}"
    for pmu in sorted(sys_path("/sys/bus/event_source/devices").glob("armv8*")):
        events = pmu / "events"
        # PMUv3 demands both of every CPU with a cache; QEMU models no cache.
        if (events / "cpu_cycles").exists() and not (events / "l1d_cache_refill").exists():
            return f"its counters ({pmu.name}) count cycles but no cache misses"
    return None
