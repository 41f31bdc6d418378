/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do the readers still survive what fuzzing began with, and what it found?  See tests/fuzz. */
#include "check.h"

#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../fuzz/encode.c"
#include "../fuzz/files.c"
#include "../fuzz/options.c"

/* Seen from where the tests are started, and from their own folder. */
static const char *const folders_of_inputs[] = {
	"tests/fuzz/seeds", "tests/fuzz/corpus", "../fuzz/seeds", "../fuzz/corpus",
};

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

static int replay_folder(const char *folder, void (*target)(const uint8_t *, size_t))
{
	struct dirent *entry;
	DIR *inputs = opendir(folder);
	char path[600];
	int given = 0;

	while (inputs && (entry = readdir(inputs))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		give(path, target);
		given++;
	}
	if (inputs)
		closedir(inputs);
	return given;
}

static void replay(const char *name, void (*target)(const uint8_t *, size_t))
{
	char folder[300];
	int given = 0;

	for (size_t i = 0; i < sizeof(folders_of_inputs) / sizeof(folders_of_inputs[0]); i++) {
		snprintf(folder, sizeof(folder), "%s/%s", folders_of_inputs[i], name);
		given += replay_folder(folder, target);
	}
	if (!given)
		CHECK_SKIP("tests/fuzz is not below the current folder");
}

TEST(specs_of_events)
{
	replay("encode", fuzz_encode);
}

TEST(files_of_proc_and_sys)
{
	replay("files", fuzz_files);
}

TEST(options_of_a_modelled_machine)
{
	replay("options", fuzz_options);
}

CHECK_MAIN
