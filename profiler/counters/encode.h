/* SPDX-License-Identifier: GPL-2.0-or-later */
/* By which numbers does the kernel know a counter? */
#ifndef TLBCOST_COUNTERS_ENCODE_H
#define TLBCOST_COUNTERS_ENCODE_H

#include <stddef.h>
#include <stdint.h>

enum encoded_by { ENCODED_BY_LIBPFM4, ENCODED_BY_CODE };

/* The fields of perf_event_attr that select the event. */
struct encoding {
	uint32_t type;
	uint64_t config, config1;
	int precise;		/* precise_ip, 0 to 3 */
	enum encoded_by by;
};

/*
 * Encode the first valid alternative of "ALTERNATIVE|ALTERNATIVE...".
 * An alternative is a libpfm4 string, of any CPU whose table the library has
 * ("skl::DTLB_LOAD_MISSES:WALK_ACTIVE"; of this machine, if it names no table), or "code:TYPE:CONFIG[:CONFIG1[:PRECISE]]"
 * with numbers as in C; TYPE may also be hardware, software, cache or raw, or
 * the name of an event source below /sys/bus/event_source/devices.
 * A libpfm4 string may select the event, but not its modifiers (:u, :k, :period=...).
 * Returns 0; or -1 with errno (ENOENT: not known here; EINVAL: malformed, or
 * more than an encoding holds; ENOSYS: libpfm4 did not start) and in `why` a
 * part of a sentence for each alternative.
 */
int encode_event(const char *spec, struct encoding *encoding, char *why,
		 size_t why_size);

/* "libpfm4" or "code", as tables say it. */
static inline const char *encoded_by_name(enum encoded_by by)
{
	return by == ENCODED_BY_LIBPFM4 ? "libpfm4" : "code";
}

#endif
