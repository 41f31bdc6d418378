/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "profile.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"
#include "sysfile.h"

/* Stands for the kernel among the processes: no process has it. */
#define KERNEL_PID (UINT32_MAX - 1)
#define KERNEL_NAME "[kernel]"
#define UNKNOWN_NAME "[unknown]"
#define BSS_NAME "[bss]"

static int learn_modules(struct profile *profile)
{
	FILE *file = sysfile_open("/proc/modules");
	char name[128], bracketed[132];
	uint64_t size, start;
	int result = 0;

	if (!file)
		return 0;
	while (result == 0 && fscanf(file, "%127s %" SCNu64 " %*s %*s %*s %" SCNx64 "%*[^\n]",
				     name, &size, &start) == 3) {
		struct mapping mapping = { .start = start, .end = start + size };

		if (!start)
			continue;	/* this user may not see it */
		snprintf(bracketed, sizeof(bracketed), "[%s]", name);
		mapping.name = names_number(&profile->mappings.names, bracketed,
					    strlen(bracketed), NULL, 0);
		if (mapping.name == NO_NAME ||
		    mappings_add(&profile->mappings, KERNEL_PID, &mapping) < 0)
			result = -1;
	}
	fclose(file);
	return result;
}

int profile_begin(struct profile *profile, pid_t pid)
{
	struct dirent *entry;
	int result = learn_modules(profile);
	DIR *processes;

	if (pid > 0 && result == 0)
		return mappings_read(&profile->mappings, (uint32_t)pid, !profile->addresses);
	processes = pid < 0 ? opendir("/proc") : NULL;
	while (processes && result == 0 && (entry = readdir(processes))) {
		char *end;
		unsigned long number = strtoul(entry->d_name, &end, 10);

		if (number && !*end && number < KERNEL_PID)
			result = mappings_read(&profile->mappings, (uint32_t)number,
					       !profile->addresses);
	}
	if (processes)
		closedir(processes);
	return result;
}

static int add_mapping(struct profile *profile, const struct record *record)
{
	const struct mapping_record *mapped = &record->mapping;
	struct mapping mapping = {
		.start = mapped->start,
		.end = mapped->start + mapped->length,
		.offset = mapped->offset,
	};
	size_t length = mapped->name_length;
	const char *name = mapping_name(mapped->name, &length);

	if (mapping.end < mapping.start)
		return 0;	/* garbage */
	mapping.name = names_number(&profile->mappings.names, name, length,
				    mapped->build_id, mapped->build_id_size);
	if (mapping.name == NO_NAME)
		return -1;
	return mappings_add(&profile->mappings, record->pid, &mapping);
}

static uint32_t own_name(struct profile *profile, const char *name)
{
	return names_number(&profile->mappings.names, name, strlen(name), NULL, 0);
}

/* Where the instruction is: the hit's object and offset. */
static int place(struct profile *profile, const struct record *record, struct hit *hit)
{
	int kernel = hit->mode == MODE_KERNEL;
	const struct mapping *mapping = NULL;

	hit->object = NO_NAME;
	hit->offset = record->sample.ip;
	if (kernel || hit->mode == MODE_USER)
		mapping = mappings_find(&profile->mappings, kernel ? KERNEL_PID : hit->pid,
					hit->offset, !profile->addresses);
	if (mapping) {
		hit->object = mapping->name;
		/* Code in no file has no offset. */
		if (profile->mappings.names.list[mapping->name].text[0] == '/')
			hit->offset += mapping->offset - mapping->start;
	} else if (kernel) {
		hit->object = own_name(profile, KERNEL_NAME);
		return hit->object == NO_NAME ? -1 : 0;
	}
	return 0;
}

/* What the data is in. */
static int place_data(struct profile *profile, const struct record *record,
		      struct hit *hit)
{
	uint64_t address = record->sample.address;
	const struct mapping *mapping;

	hit->data = NO_NAME;
	hit->data_tlb = data_tlb_name(record->sample.data_source);
	if (!address)
		return 0;	/* not reported */
	/* The kernel's half of the addresses, where there are halves. */
	if (address >> 63) {
		hit->data = own_name(profile, KERNEL_NAME);
		return hit->data == NO_NAME ? -1 : 0;
	}
	mapping = mappings_find(&profile->mappings, hit->pid, address, 0);
	if (mappings_is_bss(&profile->mappings, hit->pid, address))
		hit->data = own_name(profile, BSS_NAME);
	else
		hit->data = mapping ? mapping->name : own_name(profile, UNKNOWN_NAME);
	return hit->data == NO_NAME ? -1 : 0;
}

/* Addresses of the kernel, and samples without one, are of no page of the process. */
static int add_access(struct profile *profile, const struct record *record, uint32_t event,
		      uint64_t weight)
{
	const struct access access = {
		.address = record->sample.address,
		.weight = weight,
		.level = memory_level_name(record->sample.data_source),
		.event = event,
		.tid = record->tid,
		.cpu = record->cpu,
	};

	if (!access.address || access.address >> 63)
		return 0;
	return accesses_add(&profile->accesses, &access);
}

static int add_sample(struct profile *profile, const struct record *record)
{
	const struct sampled_event *event = sampler_event(profile->sampler, record->id);
	struct hit hit = { .pid = record->pid, .mode = record->sample.mode };

	if (!event) {
		profile->damaged_bytes++;
		return 0;
	}
	profile->samples++;
	if (event->all_modes && ((profile->user_only && hit.mode != MODE_USER) ||
				 (profile->kernel_only && hit.mode != MODE_KERNEL)))
		return 0;
	hit.event = (uint32_t)(event - profile->sampler->events);
	hit.weight = record->sample.period ? record->sample.period : event->period;
	hit.data = NO_NAME;
	if (profile->one_by_one)
		return add_access(profile, record, hit.event, hit.weight);
	if (place(profile, record, &hit) < 0 ||
	    (profile->addresses && place_data(profile, record, &hit) < 0))
		return -1;
	return hits_add(&profile->hits, &hit);
}

void profile_record(const void *bytes, size_t size, void *context)
{
	struct profile *profile = context;
	struct record record;
	int result = 0;

	if (record_parse(bytes, size, profile->addresses, &record) < 0) {
		profile->damaged_bytes += size;
		return;
	}
	switch (record.kind) {
	case RECORD_SAMPLE:
		result = add_sample(profile, &record);
		break;
	case RECORD_MAPPING:
		result = add_mapping(profile, &record);
		break;
	case RECORD_FORK:
		result = mappings_fork(&profile->mappings, record.pid, record.parent_pid);
		break;
	case RECORD_EXEC:
		result = mappings_exec(&profile->mappings, record.pid);
		break;
	case RECORD_EXIT:
		if (record.pid == record.tid)
			mappings_exit(&profile->mappings, record.pid);
		break;
	case RECORD_LOST:
		profile->lost += record.lost;
		break;
	case RECORD_THROTTLED:
		profile->throttled++;
		break;
	case RECORD_OTHER:
		break;
	}
	if (result < 0)
		profile->failed++;
}

void profile_free(struct profile *profile)
{
	mappings_free(&profile->mappings);
	hits_free(&profile->hits);
	accesses_free(&profile->accesses);
}
