/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "hits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char columns[] =
	"event pid object mode offset_bytes data data_tlb samples weight";

static int same(const struct hit *a, const struct hit *b)
{
	return a->offset == b->offset && a->event == b->event && a->pid == b->pid &&
	       a->object == b->object && a->data == b->data &&
	       a->mode == b->mode && a->data_tlb == b->data_tlb;
}

static size_t hash(const struct hit *hit)
{
	uint64_t value = hit->offset;

	/* Odd factors, so that each part reaches the upper bits, which are used. */
	value = value * 0x9e3779b97f4a7c15u + hit->pid;
	value = value * 0x9e3779b97f4a7c15u + hit->object;
	value = value * 0x9e3779b97f4a7c15u + hit->data;
	value = value * 0x9e3779b97f4a7c15u + hit->event;
	return (size_t)(value * 0x9e3779b97f4a7c15u >> 32);
}

/* Its slot, or the free one where it belongs. */
static struct hit *find(const struct hits *hits, const struct hit *hit)
{
	size_t at = hash(hit);

	while (hits->list[at &= hits->room - 1].samples &&
	       !same(&hits->list[at], hit))
		at++;
	return &hits->list[at];
}

static int grow(struct hits *hits)
{
	struct hits larger = { .room = hits->room ? 2 * hits->room : 1024 };

	larger.list = calloc(larger.room, sizeof(*larger.list));
	if (!larger.list)
		return -1;
	for (size_t i = 0; i < hits->room; i++)
		if (hits->list[i].samples)
			*find(&larger, &hits->list[i]) = hits->list[i];
	larger.count = hits->count;
	free(hits->list);
	*hits = larger;
	return 0;
}

int hits_add(struct hits *hits, const struct hit *hit)
{
	struct hit *place;

	if (2 * hits->count >= hits->room && grow(hits) < 0)
		return -1;
	place = find(hits, hit);
	if (place->samples) {
		place->samples++;
		place->weight += hit->weight;
		return 0;
	}
	*place = *hit;
	place->samples = 1;
	hits->count++;
	return 0;
}

static int compare(const void *left, const void *right)
{
	const struct hit *a = left, *b = right;

	if (a->event != b->event)
		return a->event < b->event ? -1 : 1;
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void sort(struct hits *hits)
{
	size_t count = 0;

	for (size_t i = 0; i < hits->room; i++)
		if (hits->list[i].samples)
			hits->list[count++] = hits->list[i];
	if (count > 1)
		qsort(hits->list, count, sizeof(*hits->list), compare);
}

/* The names that rows refer to, numbered in the order of the rows. */
struct numbering {
	uint32_t *number;	/* of each name; NO_NAME: not referred to */
	uint32_t *name;		/* of each number */
	uint32_t count;
};

static int numbering_make(struct numbering *numbering, uint32_t names)
{
	size_t size = ((size_t)names + 1) * sizeof(uint32_t);

	*numbering = (struct numbering){ malloc(size), malloc(size), 0 };
	if (!numbering->number || !numbering->name)
		return -1;
	memset(numbering->number, 0xff, size);
	return 0;
}

static void numbering_free(struct numbering *numbering)
{
	free(numbering->number);
	free(numbering->name);
}

static void refer(struct numbering *numbering, uint32_t name)
{
	if (name == NO_NAME || numbering->number[name] != NO_NAME)
		return;
	numbering->number[name] = numbering->count;
	numbering->name[numbering->count++] = name;
}

static uint32_t number_of(const struct numbering *numbering, uint32_t name)
{
	return name == NO_NAME ? NO_NAME : numbering->number[name];
}

static void write_build_id(struct table *table, uint32_t number, const struct name *name)
{
	char key[32], digits[2 * sizeof(name->build_id) + 1];

	for (size_t i = 0; i < name->build_id_size; i++)
		snprintf(digits + 2 * i, 3, "%02x", name->build_id[i]);
	snprintf(key, sizeof(key), "build_id_%" PRIu32, number);
	table_key(table, key, "%s", digits);
}

static void write_names(struct table *table, const struct names *names,
			const struct numbering *objects, const struct numbering *data)
{
	char key[32];

	for (uint32_t i = 0; i < objects->count; i++) {
		const struct name *name = &names->list[objects->name[i]];

		snprintf(key, sizeof(key), "object_%" PRIu32, i);
		table_key(table, key, "%s", name->text);
		if (name->build_id_size)
			write_build_id(table, i, name);
	}
	for (uint32_t i = 0; i < data->count; i++) {
		snprintf(key, sizeof(key), "data_%" PRIu32, i);
		table_key(table, key, "%s", names->list[data->name[i]].text);
	}
}

static void word_or_na(struct table *table, const char *word)
{
	table_word(table, word ? word : "NA");
}

static void count_or_na(struct table *table, uint32_t value)
{
	if (value == UINT32_MAX)
		table_na(table);
	else
		table_count(table, value);
}

static void write_row(struct table *table, const struct hit *hit,
		      const char *event, uint32_t object, uint32_t data)
{
	static const char *const modes[] = {
		[MODE_UNKNOWN] = "NA", [MODE_KERNEL] = "kernel", [MODE_USER] = "user",
		[MODE_HYPERVISOR] = "hypervisor", [MODE_GUEST] = "guest",
	};

	table_word(table, event);
	/* The kernel's -1: the process was gone when its thread was sampled. */
	count_or_na(table, hit->pid);
	count_or_na(table, object);
	table_word(table, modes[hit->mode]);
	table_count(table, hit->offset);
	count_or_na(table, data);
	word_or_na(table, hit->data_tlb);
	table_count(table, hit->samples);
	table_count(table, hit->weight);
}

int hits_write(struct hits *hits, const struct names *names,
	       const char *const *event_names, struct table *table)
{
	struct numbering objects, data;
	int result = numbering_make(&objects, names->count);

	if (numbering_make(&data, names->count) < 0)
		result = -1;
	if (result == 0) {
		sort(hits);
		for (size_t i = 0; i < hits->count; i++) {
			refer(&objects, hits->list[i].object);
			refer(&data, hits->list[i].data);
		}
		write_names(table, names, &objects, &data);
		table_columns(table, columns);
		for (size_t i = 0; i < hits->count; i++) {
			const struct hit *hit = &hits->list[i];

			write_row(table, hit, event_names[hit->event],
				  number_of(&objects, hit->object),
				  number_of(&data, hit->data));
		}
	}
	numbering_free(&objects);
	numbering_free(&data);
	return result;
}

void hits_free(struct hits *hits)
{
	free(hits->list);
	memset(hits, 0, sizeof(*hits));
}
