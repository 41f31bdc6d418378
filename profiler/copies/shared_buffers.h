/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that is followed itself writes its stream to memory that it shares with the worker,
 * which is faster than copying it.  (Copies share nothing.)
 */
#ifndef TLBCOST_COPIES_SHARED_BUFFERS_H
#define TLBCOST_COPIES_SHARED_BUFFERS_H

struct following;
struct stream;

/*
 * The area is mapped.  Returns 0: then stream.shared has them, or is NULL where the kernel or a
 * limit says no; or -1 with errno: the program cannot be followed.
 */
int shared_buffers_map(struct following *following);
void shared_buffers_unmap(struct stream *stream);

#endif
