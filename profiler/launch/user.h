/* SPDX-License-Identifier: GPL-2.0-or-later */
/* As whom does the program run, when root measures for somebody else? */
#ifndef TLBCOST_LAUNCH_USER_H
#define TLBCOST_LAUNCH_USER_H

#include <sys/types.h>

struct user_account {
	uid_t uid;
	gid_t gid;
	char *name;	/* NULL: no entry in the user database */
	char *home;
};

/*
 * Read "UID:GID" (decimal) and look the user up.  A number without an entry in
 * the user database is accepted: its home is then "/".
 * Returns 0, or -1 with errno EINVAL (not two numbers) or of the look-up.
 */
int user_parse(struct user_account *user, const char *text);

/*
 * Take on the groups, the ids, HOME, USER and LOGNAME of the user, for good.
 * Returns 0, or -1 with errno; the process is then good for nothing but exit.
 */
int user_become(const struct user_account *user);

/* Free what user_parse() allocated. */
void user_free(struct user_account *user);

#endif
