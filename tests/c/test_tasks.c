/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which threads share their memory, and when does nobody use it any more? */
#include "check.h"

#include "tasks.h"

TEST(threads_share_and_children_copy)
{
	struct tasks tasks = { .count = 0 };
	struct task *first = tasks_add(&tasks, 10), *thread = tasks_add(&tasks, 11);
	struct task *child = tasks_add(&tasks, 12);

	first->memory->heap_end = 7;
	first->memory->filtered = 1;
	tasks_share(thread, first);
	tasks_copy(child, first);
	CHECK(thread->memory == first->memory && child->memory != first->memory);
	CHECK_EQUAL(first->memory->users, 2);
	CHECK_EQUAL(child->memory->users, 1);
	CHECK_EQUAL(child->memory->heap_end, 7);
	CHECK_EQUAL(tasks_memories(&tasks), 2);
	CHECK(tasks_find(&tasks, 11) == thread && !tasks_find(&tasks, 13));
	/* A new program has a heap of its own; a filter stays. */
	CHECK_EQUAL(tasks_renew(child), 0);
	CHECK_EQUAL(child->memory->heap_end, 0);
	CHECK_EQUAL(child->memory->filtered, 1);
	CHECK_EQUAL(child->memory->fresh, 1);
	tasks_free(&tasks);
	CHECK_EQUAL(tasks.count, 0);
}

TEST(the_last_to_leave_is_known)
{
	struct tasks tasks = { .count = 0 };
	struct task *first = tasks_add(&tasks, 10), *thread = tasks_add(&tasks, 11);
	struct task *third = tasks_add(&tasks, 12);

	tasks_share(thread, first);
	tasks_share(third, first);
	CHECK_EQUAL(tasks_leave(thread), 0);
	CHECK_EQUAL(tasks_leave(thread), 0);
	tasks_remove(&tasks, thread);
	CHECK_EQUAL(first->memory->users, 2);
	CHECK_EQUAL(tasks_leave(first), 0);
	CHECK_EQUAL(tasks_leave(third), 1);
	tasks_free(&tasks);
}

TEST(many_come_and_go)
{
	struct tasks tasks = { .count = 0 };

	for (pid_t tid = 1; tid <= 1000; tid++)
		CHECK(tasks_add(&tasks, tid));
	for (pid_t tid = 2; tid <= 1000; tid += 2)
		tasks_remove(&tasks, tasks_find(&tasks, tid));
	CHECK_EQUAL(tasks.count, 500);
	CHECK(!tasks_find(&tasks, 500) && tasks_find(&tasks, 501));
	tasks_free(&tasks);
}

CHECK_MAIN
