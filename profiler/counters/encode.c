/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "encode.h"

#include <ctype.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <perfmon/pfmlib_perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sysfile.h"

#define CODE "code:"
#define INACTIVE "LIBPFM_ENCODE_INACTIVE"

enum { PRECISE_MAX = 3, TEXT_SIZE = 256 };

/* Types that the kernel's interface fixes. */
static const struct {
	const char *name;
	uint32_t type;
} fixed_types[] = {
	{ "hardware", PERF_TYPE_HARDWARE },
	{ "software", PERF_TYPE_SOFTWARE },
	{ "cache", PERF_TYPE_HW_CACHE },
	{ "raw", PERF_TYPE_RAW },
};

/* Refuse with `error`; `why` gets the sentence part. */
static int refuse(int error, char *why, size_t size, const char *what,
		  const char *reason)
{
	snprintf(why, size, "%s: %s", what, reason);
	errno = error;
	return -1;
}

/*
 * libpfm4 encodes the events of other CPUs only if that is set before it starts, and a CPU newer
 * than the library needs them: Emerald Rapids counts with the codes of Sapphire Rapids.  The
 * counted program must not see it.
 */
static int start_libpfm4(void)
{
	static int started, rc;
	int ours;

	if (started)
		return rc;
	started = 1;
	ours = !getenv(INACTIVE);
	if (ours && setenv(INACTIVE, "1", 1) < 0)
		return rc = PFM_ERR_NOMEM;
	rc = pfm_initialize();
	if (ours)
		unsetenv(INACTIVE);
	return rc;
}

/* Does the event need more of perf_event_attr than an encoding holds? */
static int has_more(const struct perf_event_attr *attr)
{
	struct perf_event_attr rest = *attr;

	rest.type = 0;
	rest.size = 0;
	rest.config = 0;
	rest.config1 = 0;
	rest.precise_ip = 0;
	/* The library's own choice; the code that opens the counter decides. */
	rest.exclude_hv = 0;
	rest.exclude_guest = 0;
	for (size_t i = 0; i < sizeof(rest); i++)
		if (((const unsigned char *)&rest)[i])
			return 1;
	return 0;
}

static int look_up(const char *text, struct perf_event_attr *attr)
{
	pfm_perf_encode_arg_t arg = { .attr = attr, .size = sizeof(arg), .cpu = -1 };

	memset(attr, 0, sizeof(*attr));
	return pfm_get_os_event_encoding(text, PFM_PLM0 | PFM_PLM3,
					 PFM_OS_PERF_EVENT_EXT, &arg);
}

/*
 * A string that names no table is of this machine's.  By default the library would also try
 * those of other CPUs, and take the first match.
 */
static int look_up_here(const char *text, struct perf_event_attr *attr)
{
	char qualified[TEXT_SIZE + 64];
	int rc = PFM_ERR_NOTFOUND;

	for (int i = PFM_PMU_NONE; i < PFM_PMU_MAX && rc == PFM_ERR_NOTFOUND; i++) {
		pfm_pmu_info_t pmu = { .size = sizeof(pmu) };

		if (pfm_get_pmu_info((pfm_pmu_t)i, &pmu) != PFM_SUCCESS || !pmu.is_present)
			continue;
		snprintf(qualified, sizeof(qualified), "%s::%s", pmu.name, text);
		rc = look_up(qualified, attr);
	}
	return rc;
}

static int encode_libpfm4(const char *text, struct encoding *encoding, char *why,
			  size_t size)
{
	struct perf_event_attr attr;
	int rc = start_libpfm4();

	if (rc != PFM_SUCCESS)
		return refuse(ENOSYS, why, size, "libpfm4 did not start",
			      pfm_strerror(rc));
	rc = strstr(text, "::") ? look_up(text, &attr) : look_up_here(text, &attr);
	if (rc != PFM_SUCCESS)
		return refuse(rc == PFM_ERR_NOTFOUND ? ENOENT : EINVAL, why, size,
			      text, pfm_strerror(rc));
	if (has_more(&attr))
		return refuse(EINVAL, why, size, text,
			      "has modifiers beyond the event itself (such as :u, :k or :period=)");
	*encoding = (struct encoding){
		.type = attr.type,
		.config = attr.config,
		.config1 = attr.config1,
		.precise = attr.precise_ip,
		.by = ENCODED_BY_LIBPFM4,
	};
	return 0;
}

static int read_number(const char *text, uint64_t max, uint64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return -1;
	errno = 0;
	*number = strtoull(text, &end, 0);
	return errno || *end || *number > max ? -1 : 0;
}

static int read_type(const char *text, uint32_t *type)
{
	uint64_t number;

	for (size_t i = 0; i < sizeof(fixed_types) / sizeof(fixed_types[0]); i++)
		if (strcmp(text, fixed_types[i].name) == 0) {
			*type = fixed_types[i].type;
			return 0;
		}
	if (read_number(text, UINT32_MAX, &number) < 0 &&
	    (!*text || *text == '.' || strchr(text, '/') ||
	     sysfile_number(&number, "/sys/bus/event_source/devices/%s/type", text) < 0 ||
	     number > UINT32_MAX))
		return -1;
	*type = (uint32_t)number;
	return 0;
}

static int encode_code(const char *text, struct encoding *encoding, char *why,
		       size_t size)
{
	enum { TYPE, CONFIG, CONFIG1, PRECISE, FIELDS };
	const char *fields[FIELDS] = { NULL, NULL, "0", "0" };
	uint64_t precise;
	char copy[TEXT_SIZE];
	int n = 0;

	if (strlen(text) >= sizeof(copy))
		return refuse(EINVAL, why, size, text, "too long");
	strcpy(copy, text);
	for (char *at = copy + strlen(CODE); at && n < FIELDS; n++) {
		fields[n] = at;
		at = strchr(at, ':');
		if (at)
			*at++ = '\0';
		if (at && n == FIELDS - 1)
			return refuse(EINVAL, why, size, text, "too many fields");
	}
	if (n <= CONFIG)
		return refuse(EINVAL, why, size, text,
			      "not code:TYPE:CONFIG[:CONFIG1[:PRECISE]]");
	if (read_number(fields[CONFIG], UINT64_MAX, &encoding->config) < 0 ||
	    read_number(fields[CONFIG1], UINT64_MAX, &encoding->config1) < 0 ||
	    read_number(fields[PRECISE], PRECISE_MAX, &precise) < 0)
		return refuse(EINVAL, why, size, text, "not a number, or too large");
	if (read_type(fields[TYPE], &encoding->type) < 0)
		return refuse(ENOENT, why, size, text,
			      "no such event source on this machine");
	encoding->precise = (int)precise;
	encoding->by = ENCODED_BY_CODE;
	return 0;
}

int encode_event(const char *spec, struct encoding *encoding, char *why,
		 size_t why_size)
{
	char text[TEXT_SIZE], reason[2 * TEXT_SIZE];
	struct encoding found;
	size_t used = 0;
	int rc, error = 0;

	if (why_size)
		*why = '\0';
	for (const char *at = spec;; at++) {
		size_t length = strcspn(at, "|");

		snprintf(text, sizeof(text), "%.*s", (int)length, at);
		if (length >= sizeof(text))
			rc = refuse(EINVAL, reason, sizeof(reason), "too long", "an event");
		else if (strncmp(text, CODE, strlen(CODE)) == 0)
			rc = encode_code(text, &found, reason, sizeof(reason));
		else
			rc = encode_libpfm4(text, &found, reason, sizeof(reason));
		if (rc == 0) {
			*encoding = found;
			return 0;
		}
		/* "Unknown here" is the more helpful refusal. */
		if (!error || errno == ENOENT)
			error = errno;
		if (used < why_size) {
			int n = snprintf(why + used, why_size - used, "%s%s",
					 used ? "; " : "", reason);

			used += n < 0 ? 0 : (size_t)n;
		}
		at += length;
		if (!*at)
			break;
	}
	errno = error;
	return -1;
}
