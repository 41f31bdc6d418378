/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core.h"

static ticks later(ticks a, ticks b)
{
	return a > b ? a : b;
}

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
	core->instructions = core->stores = 0;
	for (uint32_t i = 0; i < CORE_MOST_WINDOW; i++)
		core->window[i] = 0;
	for (uint32_t i = 0; i < CORE_MOST_STORES; i++)
		core->store_buffer[i] = 0;
	for (uint32_t i = 0; i < CORE_REGISTERS; i++)
		core->registers[i] = 0;
	for (uint32_t i = 0; i < CORE_FORWARDS; i++)
		core->forwards[i] = (struct forward){ UINT64_MAX, 0, 0 };
}

/* Requests never start before the instruction in hand enters the window. */
static void advance(struct core *core)
{
	calendar_advance(&core->memory.buffers, core->front);
	calendar_advance(&core->memory.l3_channel, core->front);
	calendar_advance(&core->memory.memory_channel, core->front);
	calendar_advance(&core->translation.walkers, core->front);
}

void core_instruction(struct core *core)
{
	const ticks slot = TICKS_PER_CYCLE / core->config->width;
	ticks *place = &core->window[core->instructions % core->config->window];

	core->retired = later(core->retired + slot, core->done);
	*place = core->retired;
	core->instructions++;
	place = &core->window[core->instructions % core->config->window];
	core->front = later(core->front + slot, *place);
	core->done = core->front + TICKS_PER_CYCLE;
	advance(core);
}

ticks core_load(struct core *core, uint64_t address, ticks address_ready)
{
	struct forward *forward =
		&core->forwards[(address >> 3) % CORE_FORWARDS];
	ticks time = later(later(core->front, core->fence), address_ready);

	time = translate(&core->translation, address, time);
	if (forward->word == address >> 3 &&
	    core->stores - forward->store <= core->config->stores)
		time = later(time, forward->ready) +
		       (ticks)core->config->l1.cycles * TICKS_PER_CYCLE;
	else
		time = memory_read(&core->memory, address >> LINE_SHIFT, time,
				   LINE_DATA);
	core_done(core, time);
	return time;
}

void core_store(struct core *core, uint64_t address, ticks address_ready,
		ticks data_ready)
{
	ticks *place = &core->store_buffer[core->stores % core->config->stores];
	ticks ready;

	core->front = later(core->front, *place);
	ready = translate(&core->translation, address,
			  later(core->front, address_ready));
	ready = later(ready, data_ready);
	core_done(core, ready);
	core->forwards[(address >> 3) % CORE_FORWARDS] =
		(struct forward){ address >> 3, core->stores, ready };
	/* It goes to its line once it has left the window. */
	ready = memory_change(&core->memory, address >> LINE_SHIFT,
			      later(core->retired, core->done));
	core->committed = later(core->committed + TICKS_PER_CYCLE, ready);
	*place = core->committed;
	core->stores++;
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
	if (!predicted)
		core->front = later(core->front,
				    ready + (ticks)core->config->mispredict *
						    TICKS_PER_CYCLE);
}
