/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "user.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* (uid_t)-1 means "leave as it is" to the kernel, so it is no user. */
static int parse_id(const char **text, unsigned *id)
{
	unsigned long value;
	char *end;

	if (!isdigit((unsigned char)**text))
		return -1;
	errno = 0;
	value = strtoul(*text, &end, 10);
	if (errno || value >= 0xffffffffUL)
		return -1;
	*id = (unsigned)value;
	*text = end;
	return 0;
}

int user_parse(struct user_account *user, const char *text)
{
	struct passwd *entry;

	memset(user, 0, sizeof(*user));
	if (parse_id(&text, &user->uid) < 0 || *text++ != ':' ||
	    parse_id(&text, &user->gid) < 0 || *text) {
		errno = EINVAL;
		return -1;
	}
	errno = 0;
	entry = getpwuid(user->uid);
	if (!entry && errno && errno != ENOENT && errno != ESRCH)
		return -1;
	if (entry)
		user->name = strdup(entry->pw_name);
	user->home = strdup(entry ? entry->pw_dir : "/");
	if (!user->home || (entry && !user->name)) {
		user_free(user);
		errno = ENOMEM;
		return -1;
	}
	return 0;
}

static int set_variable(const char *name, const char *value)
{
	return value ? setenv(name, value, 1) : unsetenv(name);
}

int user_become(const struct user_account *user)
{
	int rc;

	if (user->name)
		rc = initgroups(user->name, user->gid);
	else
		rc = setgroups(1, &user->gid);
	if (rc < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
	    setresuid(user->uid, user->uid, user->uid) < 0)
		return -1;
	if (set_variable("HOME", user->home) < 0 ||
	    set_variable("USER", user->name) < 0)
		return -1;
	return set_variable("LOGNAME", user->name);
}

void user_free(struct user_account *user)
{
	free(user->name);
	free(user->home);
	user->name = NULL;
	user->home = NULL;
}
