/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do the readers still survive what fuzzing began with, and what it found?  See tests/fuzz. */
#include "check.h"

#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../fuzz/encode.c"
#include "../fuzz/files.c"
#include "../fuzz/records.c"

/* Where the tests are started from, and from their own folder. */
static const char *const folders_of_seeds[] = { "tests/fuzz/seeds", "../fuzz/seeds" };

/* The inputs of at most this size are given to the reader, in memory of just that size. */
enum { MOST_BYTES = 1 << 16 };

static void give(const char *path, void (*target)(const uint8_t *, size_t))
{
	static uint8_t buffer[MOST_BYTES];
	FILE *file = fopen(path, "rb");
	uint8_t *bytes;
	size_t size;

	CHECK(file != NULL);
	if (!file)
		return;
	size = fread(buffer, 1, sizeof(buffer), file);
	fclose(file);
	bytes = malloc(size ? size : 1);
	CHECK(bytes != NULL);
	if (bytes) {
		memcpy(bytes, buffer, size);
		target(bytes, size);
	}
	free(bytes);
}

static void replay(const char *name, void (*target)(const uint8_t *, size_t))
{
	struct dirent *entry;
	char folder[300], path[600];
	DIR *seeds = NULL;
	int given = 0;

	for (size_t i = 0; !seeds && i < 2; i++) {
		snprintf(folder, sizeof(folder), "%s/%s", folders_of_seeds[i], name);
		seeds = opendir(folder);
	}
	if (!seeds)
		CHECK_SKIP("tests/fuzz/seeds is not below the current folder");
	while ((entry = readdir(seeds))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		give(path, target);
		given++;
	}
	closedir(seeds);
	CHECK(given > 0);
}

static void test_encode(void)
{
	replay("encode", fuzz_encode);
}

static void test_files(void)
{
	replay("files", fuzz_files);
}

static void test_records(void)
{
	replay("records", fuzz_records);
}

static const struct check_test tests[] = {
	{ "specs of events", test_encode },
	{ "files of /proc and /sys", test_files },
	{ "records of the sampling buffers", test_records },
};

CHECK_MAIN(tests)
