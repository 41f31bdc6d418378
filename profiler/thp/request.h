/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How does memory of a stopped thread ask for transparent huge pages? */
#ifndef TLBCOST_THP_REQUEST_H
#define TLBCOST_THP_REQUEST_H

#include <stdint.h>

#include "injection.h"

/*
 * The thread's process asks for huge pages in [start, end), as madvise() does.
 * Returns 0; or -1 if the thread ends or is lost (see injection.h).  What the
 * kernel refuses stays as it was.
 */
int request_huge(struct injection *injection, uint64_t start, uint64_t end);

/*
 * New usable memory [start, end) may complete a huge page of which others had
 * the rest: then part of it is on base pages already, and the kernel gives a
 * huge page only where there is none.  If the first or the last one became
 * complete, it asks and is collapsed.  Returns how many did, or -1 as above.
 */
int request_completed(struct injection *injection, uint64_t start, uint64_t end,
		      uint64_t huge_page_bytes);

/*
 * Put what [start, end) has on base pages onto huge ones.  Returns 0; 1 if the kernel refuses with
 * EINVAL; or -1 as above.
 */
int request_collapse(struct injection *injection, uint64_t start, uint64_t end);

#endif
