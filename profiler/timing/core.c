/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core.h"

void core_init(struct core *core, const struct timing_config *config,
	       struct cache_line *lines, struct cache *l3, uint32_t base_shift,
	       uint32_t huge_shift, bool huge)
{
	core->config = config;
	memory_init(&core->memory, config, lines, l3, !(huge && config->whole));
	translation_init(&core->translation, config, &core->memory, base_shift,
			 huge_shift, huge);
	core->front = core->retired = core->done = 0;
	core->committed = core->fence = 0;
	core->wrong_path = false;
	core->speculations = 0;
	core->slot = TICKS_PER_CYCLE / config->width;
	core->stores = 0;
	core->window_place = core->store_place = 0;
	core->paid = NULL;
	core->translated = 0;
	core->translating = 0;
	for (uint32_t i = 0; i < CORE_MOST_WINDOW; i++)
		core->window[i] = 0;
	for (uint32_t i = 0; i < CORE_MOST_STORES; i++)
		core->store_buffer[i] = 0;
	for (uint32_t i = 0; i < CORE_REGISTERS; i++)
		core->registers[i] = 0;
	for (uint32_t i = 0; i < CORE_FORWARDS; i++)
		core->forwards[i] = (struct forward){ UINT64_MAX, 0, 0 };
}

void core_advance(struct core *core, ticks now)
{
	calendar_advance(&core->memory.buffers, now);
	calendar_advance(&core->memory.l3_channel, now);
	calendar_advance(&core->memory.memory_channel, now);
	calendar_advance(&core->translation.walkers, now);
}

void core_speculate(struct core *core, ticks room)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < core->speculations; i++) {
		struct speculation speculation = core->speculation[i];

		speculation.front = later(speculation.front + core->slot, room);
		if (speculation.front < speculation.resolved)
			core->speculation[kept++] = speculation;
	}
	core->speculations = kept;
}

/* When the load or store in hand can start, whose address is known then. */
static ticks start(const struct core *core, ticks address_ready)
{
	ticks time = later(later(core->front, core->fence), address_ready);

	if (core->wrong_path)
		return time;
	for (uint32_t i = 0; i < core->speculations; i++) {
		const struct speculation *speculation = &core->speculation[i];
		ticks early = later(later(speculation->front, core->fence),
				    address_ready);

		if (early < speculation->resolved && early < time)
			time = early;
	}
	return time;
}

/* Translate, and note how long that takes. */
static ticks translate_for(struct core *core, uint64_t address, ticks time)
{
	ticks ready = translate(&core->translation, address, time);

	if (ready - time > core->translated) {
		core->translated = ready - time;
		core->translating = address;
	}
	return ready;
}

void core_pay(struct core *core, ticks waited)
{
	if (core->paid)
		core->paid(core->translation.huge, core->translating,
			   waited < core->translated ? waited :
						       core->translated);
}

ticks core_load(struct core *core, uint64_t address, ticks address_ready)
{
	struct forward *forward =
		&core->forwards[(address >> 3) % CORE_FORWARDS];
	ticks time = start(core, address_ready);

	time = translate_for(core, address, time);
	if (forward->word == address >> 3 &&
	    core->stores - forward->store <= core->config->stores)
		time = later(time, forward->ready) +
		       (ticks)(core->config->forward ? core->config->forward
						     : core->config->l1.cycles) *
			       TICKS_PER_CYCLE;
	else
		time = memory_read(&core->memory, address >> LINE_SHIFT, time,
				   LINE_DATA);
	core_done(core, time);
	return time;
}

void core_store(struct core *core, uint64_t address, ticks address_ready,
		ticks data_ready)
{
	ticks *place = &core->store_buffer[core->store_place];
	ticks ready;

	core->front = later(core->front, *place);
	ready = translate_for(core, address, start(core, address_ready));
	ready = later(later(ready, core->front), data_ready);
	core_done(core, ready);
	core->forwards[(address >> 3) % CORE_FORWARDS] =
		(struct forward){ address >> 3, core->stores, ready };
	/* It goes to its line once it has left the window. */
	ready = memory_change(&core->memory, address >> LINE_SHIFT,
			      later(core->retired, core->done));
	core->committed = later(core->committed + TICKS_PER_CYCLE, ready);
	*place = core->committed;
	core->stores++;
	if (++core->store_place == core->config->stores)
		core->store_place = 0;
}

ticks core_fence(struct core *core)
{
	core->fence = later(later(core->fence, core->front),
			    later(core->retired, core->committed));
	return core->fence;
}

void core_branch(struct core *core, ticks ready, bool predicted)
{
	ready = later(ready, core->front) + TICKS_PER_CYCLE;
	core_done(core, ready);
	if (predicted)
		return;
	core->wrong_path = true;
	if (core->speculations < CORE_SPECULATIONS)
		core->speculation[core->speculations++] =
			(struct speculation){ core->front, ready };
	core->front = later(core->front,
			    ready + (ticks)core->config->mispredict *
					    TICKS_PER_CYCLE);
}

void core_met(struct core *core)
{
	core->wrong_path = false;
}

void core_lost(struct core *core)
{
	core->speculations = 0;
}
