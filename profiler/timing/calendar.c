/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "calendar.h"

#define SLOT_TICKS (1u << CALENDAR_SLOT_SHIFT)

void calendar_init(struct calendar *calendar, uint32_t servers)
{
	calendar->capacity = servers * SLOT_TICKS;
	calendar->first = 0;
	for (uint32_t i = 0; i < CALENDAR_SLOTS; i++)
		calendar->used[i] = 0;
}

void calendar_forget(struct calendar *calendar, ticks now)
{
	uint64_t first = now >> CALENDAR_SLOT_SHIFT;

	if (first >= calendar->first + CALENDAR_SLOTS) {
		for (uint32_t i = 0; i < CALENDAR_SLOTS; i++)
			calendar->used[i] = 0;
		calendar->first = first;
	}
	for (; calendar->first < first; calendar->first++)
		calendar->used[calendar->first % CALENDAR_SLOTS] = 0;
}

ticks calendar_take(struct calendar *calendar, ticks start, ticks work)
{
	uint64_t slot = start >> CALENDAR_SLOT_SHIFT;

	if (slot < calendar->first) {
		slot = calendar->first;
		start = slot << CALENDAR_SLOT_SHIFT;
	}
	for (; slot < calendar->first + CALENDAR_SLOTS; slot++) {
		uint32_t *used = &calendar->used[slot % CALENDAR_SLOTS];
		ticks end = (slot + 1) << CALENDAR_SLOT_SHIFT;
		ticks part = end - start, room = calendar->capacity - *used;

		if (part > work)
			part = work;
		if (part > room)
			part = room;
		*used += (uint32_t)part;
		work -= part;
		if (work == 0)
			return start + part;
		start = end;
	}
	return start + work;
}
