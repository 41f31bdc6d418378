/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hits_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "accesses.h"
#include "open.h"
#include "sysfile.h"

int hits_table_try(const char *path)
{
	struct table table;
	struct stat status;
	int error;

	if (strcmp(path, "-") == 0)
		return 0;
	/* The table is renamed into place, and must not replace a device. */
	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
		errno = EEXIST;
		return -1;
	}
	if (table_open(&table, path, "hits", 1) < 0)
		return -1;
	error = fflush(table.file) == 0 ? 0 : errno;
	table_discard(&table);
	errno = error;
	return error ? -1 : 0;
}

static void number_or_na(struct table *table, const char *key, int known, uint64_t value)
{
	if (known)
		table_key(table, key, "%" PRIu64, value);
	else
		table_key(table, key, "NA");
}

static void write_event(struct table *table, size_t i, const struct sampled_event *event)
{
	const struct encoding *encoding = &event->encoding;
	char key[32];

	snprintf(key, sizeof(key), "event_%zu", i);
	if (event->unknown)
		table_key(table, key, "%s unsupported %d NA NA NA NA", event->name, event->error);
	else
		table_key(table, key, "%s %s %d %s 0x%" PRIx32 " 0x%" PRIx64 " 0x%" PRIx64,
			  event->name, event->error ? refusal_state(event->error) : "counted",
			  event->error, encoded_by_name(encoding->by), encoding->type,
			  encoding->config, encoding->config1);
	snprintf(key, sizeof(key), "period_%zu", i);
	number_or_na(table, key, event->period != 0, event->period);
	snprintf(key, sizeof(key), "frequency_%zu", i);
	number_or_na(table, key, event->frequency != 0, event->frequency);
	/* An event that counts in all modes also counted what was excluded. */
	snprintf(key, sizeof(key), "count_%zu", i);
	number_or_na(table, key, event->counted && event->running_ns && !event->all_modes,
		     event->count);
	snprintf(key, sizeof(key), "enabled_ns_%zu", i);
	number_or_na(table, key, event->counted && event->enabled_ns,
		     event->enabled_ns);
	snprintf(key, sizeof(key), "running_ns_%zu", i);
	number_or_na(table, key, event->counted, event->running_ns);
}

static void write_header(struct table *table, const struct hits_table *hits)
{
	const struct sampler *sampler = hits->sampler;
	const struct sampler_options *options = &hits->options->sampler;
	uint64_t lost = hits->profile->lost + hits->profile->failed;
	struct utsname system;
	char line[64];

	for (size_t i = 0; i < sampler->event_count; i++)
		write_event(table, i, &sampler->events[i]);
	/* Lost records: those that the counters report at the end, and those of mappings. */
	table_key(table, "lost", "%" PRIu64, lost > sampler->lost ? lost : sampler->lost);
	if (hits->options->one_by_one)
		table_key(table, "samples", "%" PRIu64, hits->profile->samples);
	table_key(table, "throttled", "%" PRIu64, hits->profile->throttled);
	table_key(table, "duration_ns", "%" PRIu64, hits->duration_ns);
	table_key(table, "scope", "%s", hits->options->pid < 0 ? "system" :
		  hits->options->pid > 0 ? "process" : "program");
	table_key(table, "mode", "%s", options->user_only ? "user" :
		  options->kernel_only ? "kernel" : "both");
	table_key(table, "kernel", "%s", uname(&system) == 0 ? system.release : "NA");
	/* Kernel addresses are valid until the next boot. */
	if (sysfile_line(line, sizeof(line), "/proc/sys/kernel/random/boot_id") == 0)
		table_key(table, "boot_id", "%s", line);
}

/* Returns 0, or -1 with errno. */
static int write_rows(const struct hits_table *hits, const char *const *names, struct table *table)
{
	if (!hits->options->one_by_one)
		return hits_write(&hits->profile->hits, &hits->profile->mappings.names, names, table);
	accesses_write(&hits->profile->accesses, names, table);
	return 0;
}

int hits_table_write(const struct hits_table *hits, const char *path)
{
	const struct sampler *sampler = hits->sampler;
	const char *kind = hits->options->one_by_one ? "accesses" : "hits";
	const char **names = calloc(sampler->event_count, sizeof(*names));
	struct table table;
	int error = names ? 0 : ENOMEM;

	for (size_t i = 0; i < sampler->event_count && names; i++)
		names[i] = sampler->events[i].name;
	if (!error && table_open(&table, path, kind, 1) < 0)
		error = errno;
	if (!error) {
		write_header(&table, hits);
		if (write_rows(hits, names, &table) < 0) {
			error = errno;
			table_discard(&table);
		} else if (table_close(&table) < 0) {
			error = errno;
		}
	}
	free(names);
	errno = error;
	return error ? -1 : 0;
}
