/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does the injector do when it is asked? */
#ifndef TLBCOST_COPIES_COPY_REQUEST_H
#define TLBCOST_COPIES_COPY_REQUEST_H

#include "injector.h"

/*
 * Do what is asked.  The thread runs as before when it returns.  If calls were recorded, *recording
 * is the descriptor of the recording, else -1.
 */
void copy_request_serve(const struct injector_request *request, struct injector_answer *answer,
			int *recording);

#endif
