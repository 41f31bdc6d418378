/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages between our processes, each with at most one descriptor. */
#ifndef TLBCOST_COPIES_PARCEL_H
#define TLBCOST_COPIES_PARCEL_H

#include <stddef.h>

/* `descriptor` (-1: none) still belongs to the caller.  Returns 0, or -1 with errno. */
int parcel_send(int socket, const void *content, size_t bytes, int descriptor);

/*
 * Wait for a message of exactly this size.  *descriptor is closed on exec, and for the caller to
 * close; -1: there was none.  Returns 0; or -1 with errno: EPIPE at the end, EPROTO.
 */
int parcel_receive(int socket, void *content, size_t bytes, int *descriptor);

#endif
