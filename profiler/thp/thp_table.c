/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "thp_table.h"

#include <sys/wait.h>

#include "table.h"

static const char columns[] =
	"exit_code signal exec_errno anonymous_bytes huge_bytes processes requests filtered "
	"disabled ptraced left_processes";

static void cell(struct table *table, int known, uint64_t value)
{
	if (known)
		table_count(table, value);
	else
		table_na(table);
}

int thp_table_write(const char *path, const struct tracer *tracer, int status, int exec_errno)
{
	const struct reached *reached = &tracer->reached;
	const struct stops *stops = &tracer->stops;
	int ran = exec_errno == 0;
	struct table table;

	if (!path)
		return 0;
	if (table_open(&table, path, "thp", 1) < 0)
		return -1;
	table_columns(&table, columns);
	cell(&table, ran && WIFEXITED(status), (uint64_t)WEXITSTATUS(status));
	cell(&table, ran && WIFSIGNALED(status), (uint64_t)WTERMSIG(status));
	cell(&table, !ran, (uint64_t)exec_errno);
	cell(&table, reached->seen, reached->anonymous_bytes);
	cell(&table, reached->seen, reached->huge_bytes);
	cell(&table, reached->seen, reached->processes);
	cell(&table, ran, stops->requests);
	cell(&table, ran, stops->filtered);
	cell(&table, ran, stops->disabled);
	cell(&table, ran, stops->ptraced);
	cell(&table, ran, tasks_memories(&tracer->tasks));
	return table_close(&table);
}
