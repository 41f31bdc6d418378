/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a: few names, none chosen to collide. */
static uint32_t hash(const char *text, size_t length)
{
	uint32_t value = 2166136261u;

	for (size_t i = 0; i < length; i++)
		value = (value ^ (unsigned char)text[i]) * 16777619u;
	return value;
}

static int same(const struct name *name, const char *text, size_t length,
		const unsigned char *build_id, size_t build_id_size)
{
	return strncmp(name->text, text, length) == 0 && !name->text[length] &&
	       name->build_id_size == build_id_size &&
	       (!build_id_size || memcmp(name->build_id, build_id, build_id_size) == 0);
}

static void enter(struct names *names, uint32_t number)
{
	const char *text = names->list[number].text;
	uint32_t at = hash(text, strlen(text));

	while (names->slots[at &= names->slot_count - 1])
		at++;
	names->slots[at] = number + 1;
}

static int grow(struct names *names)
{
	uint32_t room = names->room ? 2 * names->room : 64;
	struct name *list = realloc(names->list, room * sizeof(*list));
	uint32_t *slots;

	if (!list)
		return -1;
	names->list = list;
	/* At most half full, so that searches stay short. */
	slots = calloc(2 * (size_t)room, sizeof(*slots));
	if (!slots)
		return -1;
	free(names->slots);
	names->slots = slots;
	names->slot_count = 2 * room;
	names->room = room;
	for (uint32_t i = 0; i < names->count; i++)
		enter(names, i);
	return 0;
}

uint32_t names_number(struct names *names, const char *text, size_t length,
		      const unsigned char *build_id, size_t build_id_size)
{
	uint32_t at;
	struct name *name;

	length = strnlen(text, length);
	at = hash(text, length);
	while (names->slot_count && names->slots[at &= names->slot_count - 1]) {
		uint32_t number = names->slots[at++] - 1;

		if (same(&names->list[number], text, length, build_id, build_id_size))
			return number;
	}
	if (names->count == names->room && grow(names) < 0)
		return NO_NAME;
	name = &names->list[names->count];
	*name = (struct name){ .text = strndup(text, length) };
	if (!name->text)
		return NO_NAME;
	if (build_id_size > sizeof(name->build_id))
		build_id_size = sizeof(name->build_id);
	name->build_id_size = build_id_size;
	if (build_id_size)
		memcpy(name->build_id, build_id, build_id_size);
	enter(names, names->count);
	return names->count++;
}

void names_free(struct names *names)
{
	for (uint32_t i = 0; i < names->count; i++)
		free(names->list[i].text);
	free(names->list);
	free(names->slots);
	memset(names, 0, sizeof(*names));
}

static int starts_with(const char *text, size_t length, const char *start)
{
	return length >= strlen(start) && strncmp(text, start, strlen(start)) == 0;
}

const char *mapping_name(const char *text, size_t *length)
{
	/* Files outside any folder: memory that processes may share. */
	static const char *const shared[] = { "/dev/zero", "/memfd:", "/SYSV" };
	static const char *const anonymous[] = {
		"//anon", "[anon", "/anon_hugepage", "anon_inode:",
	};
	const char *name = NULL;

	if (*length == 0)
		name = ANONYMOUS_NAME;
	/* Some kernels numbered thread stacks. */
	if (starts_with(text, *length, "[stack"))
		name = STACK_NAME;
	for (size_t i = 0; i < sizeof(shared) / sizeof(*shared); i++)
		if (starts_with(text, *length, shared[i]))
			name = "[shared]";
	for (size_t i = 0; i < sizeof(anonymous) / sizeof(*anonymous); i++)
		if (starts_with(text, *length, anonymous[i]))
			name = ANONYMOUS_NAME;
	if (!name)
		return text;
	*length = strlen(name);
	return name;
}
