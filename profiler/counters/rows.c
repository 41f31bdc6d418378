/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Losing less time than this share is due to switching groups on and off, not to missing
 * counts.
 */
enum { TOLERATED_PARTS = 1000 };

static const char columns[] =
	"end_ns event group count enabled_ns running_ns state errno encoded_by "
	"type config config1";

static const char *const scopes[] = {
	[SCOPE_PROGRAM] = "program", [SCOPE_PROCESS] = "process",
	[SCOPE_CGROUP] = "cgroup", [SCOPE_SYSTEM] = "system", [SCOPE_PROBE] = "probe",
};

static const char *const modes[] = {
	[COUNT_BOTH] = "both", [COUNT_USER] = "user", [COUNT_KERNEL] = "kernel",
};

void rows_header(struct table *table, const struct bank *bank,
		 const struct rows_header *header)
{
	int refused = 0;

	table_key(table, "scope", "%s", scopes[header->scope]);
	table_key(table, "mode", "%s", modes[header->mode]);
	if (header->cpus)
		table_key(table, "cpus", "%zu", header->cpus);
	else
		table_key(table, "cpus", "NA");
	if (header->duration_ns)
		table_key(table, "duration_ns", "%llu",
			  (unsigned long long)header->duration_ns);
	else
		table_key(table, "duration_ns", "NA");
	if (header->has_uncounted)
		table_key(table, "uncounted_ns", "%llu",
			  (unsigned long long)header->uncounted_ns);
	if (header->stopped)
		table_key(table, "stopped",
			  "the kernel counts no program that gains privileges as it starts (setuid)");
	if (header->missed_threads)
		table_key(table, "missed_threads", "%zu", header->missed_threads);
	for (size_t m = 0; m < bank->member_count; m++) {
		const struct event *event = bank->members[m].event;
		char key[32];

		if (!event->encode_error)
			continue;
		snprintf(key, sizeof(key), "refused_%d", ++refused);
		table_key(table, key, "%s: %s", event->name, event->why ? event->why : "");
	}
	table_columns(table, columns);
}

const char *value_state(const struct counter_value *value, int is_part)
{
	uint64_t idle = value->enabled_ns - value->running_ns;

	if (!value->running_ns && (value->enabled_ns || !is_part))
		return "never_ran";
	return idle > value->enabled_ns / TOLERATED_PARTS ? "multiplexed" : "counted";
}

static void write_encoding(struct table *table, const struct event *event)
{
	if (event->encode_error) {
		for (int i = 0; i < 4; i++)
			table_na(table);
		return;
	}
	table_word(table, encoded_by_name(event->encoding.by));
	table_hexadecimal(table, event->encoding.type);
	table_hexadecimal(table, event->encoding.config);
	table_hexadecimal(table, event->encoding.config1);
}

/* count, enabled_ns, running_ns, state and errno of a counter that is open. */
static void write_value(struct table *table, const struct counter_value *value,
			int is_part, int stopped)
{
	const char *state = stopped ? "forbidden" : value_state(value, is_part);

	if (stopped || strcmp(state, "never_ran") == 0)
		table_na(table);
	else
		table_count(table, value->count);
	table_count(table, value->enabled_ns);
	table_count(table, value->running_ns);
	table_word(table, state);
	table_na(table);
}

static void write_refusal(struct table *table, const struct member *member)
{
	int error = member->event->encode_error ? member->event->encode_error
						: member->error;

	for (int i = 0; i < 3; i++)
		table_na(table);
	if (member->is_left_over) {
		table_word(table, "left_over");
		table_na(table);
		return;
	}
	table_word(table, member->event->encode_error ? "unsupported" : refusal_state(error));
	table_count(table, (uint64_t)error);
}

void rows_write(struct table *table, const struct bank *bank, uint64_t end_ns,
		const struct counter_value *values, const struct counter_value *before,
		int stopped)
{
	for (size_t m = 0; m < bank->member_count; m++) {
		const struct member *member = &bank->members[m];
		int is_open = values && member_is_open(bank, member);
		struct counter_value value;

		table_count(table, end_ns);
		table_word(table, member->event->name);
		if (is_open)
			table_count(table, (uint64_t)member->group);
		else
			table_na(table);
		if (is_open) {
			value = values[m];
			if (before) {
				value.count -= before[m].count;
				value.enabled_ns -= before[m].enabled_ns;
				value.running_ns -= before[m].running_ns;
			}
			write_value(table, &value, before != NULL, stopped);
		} else {
			write_refusal(table, member);
		}
		write_encoding(table, member->event);
	}
}
