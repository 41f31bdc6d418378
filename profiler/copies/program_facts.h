/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Can a program be copied at all, and is it on huge pages already? */
#ifndef TLBCOST_COPIES_PROGRAM_FACTS_H
#define TLBCOST_COPIES_PROGRAM_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "injector.h"

/* One program.  Cached, and looked up again when it is old. */
struct program_facts {
	pid_t process;
	enum injector_refusal refusal;	/* INJECTED: none */
	uint64_t huge_bytes;		/* transparent huge pages; UINT64_MAX: not known */
	bool has_unforked;		/* memory with MADV_DONTFORK was found before */
	uint64_t looked_ns, measured_ns;
};

struct program_facts *program_facts_of(pid_t process, pid_t thread);

#endif
