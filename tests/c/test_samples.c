/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are samples and notes written as the format says, however many there are? */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "samples.h"

#define MANY 300

/* What samples_write() writes, to be freed. */
static char *written(const struct samples *samples)
{
	char path[] = "/tmp/tlbcost-test-XXXXXX", *text = NULL;
	int fd = mkstemp(path);
	struct table table;
	size_t size = 0;
	FILE *file;

	CHECK(fd >= 0);
	close(fd);
	CHECK_EQUAL(table_open(&table, path, "samples", 2), 0);
	samples_write(samples, &table);
	CHECK_EQUAL(table_close(&table), 0);
	file = fopen(path, "re");
	if (file) {
		if (getdelim(&text, &size, '\0', file) < 0)
			CHECK(!"readable");
		fclose(file);
	}
	unlink(path);
	return text ? text : strdup("");
}

TEST(no_note_is_lost)
{
	struct samples samples = { 0 };
	char key[32], line[64], *text;

	for (int i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "skipped_%d", i);
		samples_note(&samples, key, "reason %d", i);
		/* The first reason is the one that counts. */
		samples_note(&samples, key, "another");
	}
	text = written(&samples);
	for (int i = 0; i < MANY; i++) {
		snprintf(line, sizeof(line), "# skipped_%d: reason %d\n", i, i);
		CHECK(strstr(text, line) != NULL);
	}
	CHECK(!strstr(text, "another"));
	CHECK(!samples.failed);
	free(text);
	samples_free(&samples);
}

CHECK_MAIN
