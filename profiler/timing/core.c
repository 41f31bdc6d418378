/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core.h"

void core_init(struct core *core, const struct timing_config *config,
	       struct cache_line *lines, struct cache *l3, uint32_t base_shift,
	       uint32_t huge_shift, bool huge)
{
	core->config = config;
	memory_init(&core->memory, config, lines, l3,
		    !(huge && config->huge_contiguous));
	translation_init(&core->translation, config, &core->memory, base_shift,
			 huge_shift, huge);
	core->front = core->retired = core->done = 0;
	core->committed = core->fence = 0;
	core->diverged = false;
	core->speculative_count = 0;
	core->slot = TICKS_PER_CYCLE / config->width;
	core->stores = 0;
	core->reorder_place = core->store_place = 0;
	core->waited = NULL;
	core->translated = 0;
	core->translating = 0;
	for (uint32_t i = 0; i < CORE_MOST_REORDER_BUFFER; i++)
		core->reorder_buffer[i] = 0;
	for (uint32_t i = 0; i < CORE_MOST_STORE_BUFFER; i++)
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

void core_advance_speculative(struct core *core, ticks room)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < core->speculative_count; i++) {
		struct speculative_path path = core->speculative[i];

		path.front = later(path.front + core->slot, room);
		if (path.front < path.resolved)
			core->speculative[kept++] = path;
	}
	core->speculative_count = kept;
}

/* When the current load or store can start, whose address is known then. */
static ticks start(const struct core *core, ticks address_ready)
{
	ticks time = later(later(core->front, core->fence), address_ready);

	if (core->diverged)
		return time;
	for (uint32_t i = 0; i < core->speculative_count; i++) {
		const struct speculative_path *path = &core->speculative[i];
		ticks early = later(later(path->front, core->fence),
				    address_ready);

		if (early < path->resolved && early < time)
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

void core_charge(struct core *core, ticks stalled)
{
	if (core->waited)
		core->waited(core->translation.huge, core->translating,
			     stalled < core->translated ? stalled :
							  core->translated);
}

ticks core_load(struct core *core, uint64_t address, ticks address_ready)
{
	struct forward *forward =
		&core->forwards[(address >> 3) % CORE_FORWARDS];
	ticks time = start(core, address_ready);

	time = translate_for(core, address, time);
	if (forward->word == address >> 3 &&
	    core->stores - forward->store <= core->config->store_buffer)
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
	/* It goes to its line once it has retired. */
	ready = memory_change(&core->memory, address >> LINE_SHIFT,
			      later(core->retired, core->done));
	core->committed = later(core->committed + TICKS_PER_CYCLE, ready);
	*place = core->committed;
	core->stores++;
	if (++core->store_place == core->config->store_buffer)
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
	core->diverged = true;
	if (core->speculative_count < CORE_SPECULATIVE_PATHS)
		core->speculative[core->speculative_count++] =
			(struct speculative_path){ core->front, ready };
	core->front = later(core->front,
			    ready + (ticks)core->config->mispredict *
					    TICKS_PER_CYCLE);
}

void core_converged(struct core *core)
{
	core->diverged = false;
}

void core_lost(struct core *core)
{
	core->speculative_count = 0;
}
