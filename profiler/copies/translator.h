/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocks of a program's code are copied into a code cache, with instructions added that write the
 * effective addresses of their references to a buffer.  The cache is kept here, and sent to each
 * copy that is followed.
 */
#ifndef TLBCOST_COPIES_TRANSLATOR_H
#define TLBCOST_COPIES_TRANSLATOR_H

#include <stddef.h>

struct translator;
struct watcher;

/* One for each program image that is followed.  NULL with errno. */
struct translator *translator_make(void);
/* `watcher` (may be NULL) forgets all blocks. */
void translator_free(struct translator *translator, const struct watcher *watcher);

#endif
