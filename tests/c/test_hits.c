/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do samples add up by place, and does the table name what its rows refer to? */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hits.h"

static void samples_add_up_by_place(void)
{
	struct hits hits = { 0 };
	uint64_t samples = 0, weight = 0;

	for (uint64_t i = 0; i < 30000; i++) {
		const struct hit hit = {
			.event = (uint32_t)(i % 2),
			.pid = (uint32_t)(i % 3),
			.object = NO_NAME,
			.data = NO_NAME,
			.offset = i % 1000,
			.mode = MODE_USER,
			.weight = 7,
		};

		CHECK_EQUAL(hits_add(&hits, &hit), 0);
	}
	/* 2, 3 and 1000 have the least common multiple 3000. */
	CHECK_EQUAL(hits.count, 3000);
	for (size_t i = 0; i < hits.room; i++) {
		samples += hits.list[i].samples;
		weight += hits.list[i].samples ? hits.list[i].weight : 0;
	}
	CHECK_EQUAL(samples, 30000);
	CHECK_EQUAL(weight, 210000);
	hits_free(&hits);
}

static void the_table_names_what_it_refers_to(void)
{
	static const char expected[] =
		"# tlbcost hits 1\n# object_0: /b\n# build_id_0: 0102\n# data_0: [heap]\n"
		"event\tpid\tobject\tmode\toffset_bytes\tdata\tdata_tlb\tsamples\tweight\n"
		"faults\t8\t0\tuser\t64\t0\twalk\t2\t20\n"
		"faults\tNA\tNA\tkernel\t32\tNA\tNA\t1\t5\n"
		"# end: 2\n";
	static const unsigned char build_id[] = { 1, 2 };
	static const char *const events[] = { "faults" };
	char folder[] = "/tmp/test_hits.XXXXXX", path[64], text[1000] = "";
	struct names names = { 0 };
	struct hits hits = { 0 };
	struct table table;
	FILE *file;
	struct hit hit = { .pid = 8, .offset = 64, .mode = MODE_USER, .weight = 10 };
	struct hit other = {
		.pid = UINT32_MAX, .object = NO_NAME, .data = NO_NAME, .offset = 32,
		.mode = MODE_KERNEL, .weight = 5,
	};

	names_number(&names, "/unused", 7, NULL, 0);
	hit.object = names_number(&names, "/b", 2, build_id, sizeof(build_id));
	hit.data = names_number(&names, "[heap]", 6, NULL, 0);
	hit.data_tlb = "walk";
	CHECK_EQUAL(hits_add(&hits, &other), 0);
	CHECK_EQUAL(hits_add(&hits, &hit), 0);
	CHECK_EQUAL(hits_add(&hits, &hit), 0);
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/h.tsv", folder);
	CHECK_EQUAL(table_open(&table, path, "hits", 1), 0);
	CHECK_EQUAL(hits_write(&hits, &names, events, &table), 0);
	CHECK_EQUAL(table_close(&table), 0);
	file = fopen(path, "r");
	CHECK(file != NULL);
	if (file) {
		CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
		fclose(file);
	}
	CHECK(strcmp(text, expected) == 0);
	unlink(path);
	rmdir(folder);
	hits_free(&hits);
	names_free(&names);
}

static const struct check_test tests[] = {
	{ "samples add up by place", samples_add_up_by_place },
	{ "the table names what it refers to", the_table_names_what_it_refers_to },
};

CHECK_MAIN(tests)
