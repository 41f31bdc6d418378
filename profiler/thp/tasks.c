/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tasks.h"

#include <stdlib.h>

static void detach(struct task *task)
{
	task->memory->leaving -= task->leaving ? 1u : 0u;
	if (--task->memory->users == 0)
		free(task->memory);
	task->memory = NULL;
}

struct task *tasks_find(const struct tasks *tasks, pid_t tid)
{
	/* The latest first: threads that come and go are at the end. */
	for (size_t i = tasks->count; i-- > 0;)
		if (tasks->all[i]->tid == tid)
			return tasks->all[i];
	return NULL;
}

static int grow(struct tasks *tasks)
{
	size_t capacity = tasks->capacity ? 2 * tasks->capacity : 16;
	struct task **all;

	if (tasks->count < tasks->capacity)
		return 0;
	all = realloc(tasks->all, capacity * sizeof(*all));
	if (!all)
		return -1;
	tasks->all = all;
	tasks->capacity = capacity;
	return 0;
}

struct task *tasks_add(struct tasks *tasks, pid_t tid)
{
	struct task *task = calloc(1, sizeof(*task));
	struct memory *memory = calloc(1, sizeof(*memory));

	if (!task || !memory || grow(tasks) < 0) {
		free(task);
		free(memory);
		return NULL;
	}
	memory->users = 1;
	task->tid = tid;
	task->memory = memory;
	tasks->all[tasks->count++] = task;
	return task;
}

int tasks_leave(struct task *task)
{
	if (!task->leaving)
		task->memory->leaving++;
	task->leaving = 1;
	return task->memory->leaving == task->memory->users;
}

void tasks_remove(struct tasks *tasks, struct task *task)
{
	size_t i = 0;

	while (tasks->all[i] != task)
		i++;
	for (; i + 1 < tasks->count; i++)
		tasks->all[i] = tasks->all[i + 1];
	tasks->count--;
	detach(task);
	free(task);
}

void tasks_share(struct task *task, const struct task *parent)
{
	detach(task);
	task->memory = parent->memory;
	task->memory->users++;
}

void tasks_copy(struct task *task, const struct task *parent)
{
	struct memory *memory = task->memory;

	memory->fresh = parent->memory->fresh;
	memory->filtered = parent->memory->filtered;
	memory->believed_end = parent->memory->believed_end;
	memory->heap_start = parent->memory->heap_start;
	memory->heap_end = parent->memory->heap_end;
	memory->arena_next = parent->memory->arena_next;
	memory->arena_end = parent->memory->arena_end;
	memory->arena_refused = parent->memory->arena_refused;
}

int tasks_renew(struct task *task)
{
	struct memory *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return -1;
	memory->users = 1;
	memory->fresh = 1;
	/* A filter stays with the process. */
	memory->filtered = task->memory->filtered;
	detach(task);
	task->memory = memory;
	return 0;
}

size_t tasks_memories(const struct tasks *tasks)
{
	size_t n = 0;

	for (size_t i = 0; i < tasks->count; i++) {
		size_t j = 0;

		while (tasks->all[j]->memory != tasks->all[i]->memory)
			j++;
		n += j == i;
	}
	return n;
}

void tasks_free(struct tasks *tasks)
{
	while (tasks->count)
		tasks_remove(tasks, tasks->all[tasks->count - 1]);
	free(tasks->all);
	tasks->all = NULL;
	tasks->capacity = 0;
}
