/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the injector serves a request. */
#ifndef TLBCOST_COPIES_COPY_REQUEST_H
#define TLBCOST_COPIES_COPY_REQUEST_H

#include "injector.h"

/*
 * Do it.  When this returns, the thread runs as before.  *recording is the descriptor of the
 * recording if calls were recorded, else -1.
 */
void copy_request_serve(const struct injector_request *request, struct injector_answer *answer,
			int *recording);

#endif
