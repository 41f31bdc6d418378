/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is the file at an address of a process the one that was there at that time? */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mappings.h"

static uint32_t name(struct mappings *mappings, const char *text)
{
	return names_number(&mappings->names, text, strlen(text), NULL, 0);
}

static void add(struct mappings *mappings, uint32_t pid, uint64_t start, uint64_t end,
		uint64_t offset, const char *text)
{
	const struct mapping mapping = { start, end, offset, name(mappings, text) };

	CHECK_EQUAL(mappings_add(mappings, pid, &mapping), 0);
}

/* "name+offset" of what is there, or "nothing". */
static int is_there(struct mappings *mappings, uint32_t pid, uint64_t address,
		    const char *text, uint64_t offset)
{
	const struct mapping *found = mappings_find(mappings, pid, address, 1);

	if (!found || !text)
		return !found && !text;
	return strcmp(mappings->names.list[found->name].text, text) == 0 &&
	       address - found->start + found->offset == offset;
}

/* The made-up machine's /proc is empty unless a test fills it: nothing is looked up in ours. */
static char root[] = "/tmp/test_mappings.XXXXXX";

static void later_mappings_replace_earlier_ones(void)
{
	struct mappings mappings = { 0 };

	add(&mappings, 1, 0x1000, 0x9000, 0, "/a");
	add(&mappings, 1, 0x3000, 0x5000, 0x100000, "/b");
	CHECK(is_there(&mappings, 1, 0xfff, NULL, 0));
	CHECK(is_there(&mappings, 1, 0x1000, "/a", 0));
	CHECK(is_there(&mappings, 1, 0x2fff, "/a", 0x1fff));
	CHECK(is_there(&mappings, 1, 0x3000, "/b", 0x100000));
	CHECK(is_there(&mappings, 1, 0x4fff, "/b", 0x101fff));
	CHECK(is_there(&mappings, 1, 0x5000, "/a", 0x4000));
	CHECK(is_there(&mappings, 1, 0x8fff, "/a", 0x7fff));
	CHECK(is_there(&mappings, 1, 0x9000, NULL, 0));
	add(&mappings, 1, 0x2000, 0x10000, 0, "/c");
	CHECK(is_there(&mappings, 1, 0x1fff, "/a", 0xfff));
	CHECK(is_there(&mappings, 1, 0x4000, "/c", 0x2000));
	add(&mappings, 1, 0x2000, 0x2000, 0, "/nothing");
	CHECK(is_there(&mappings, 1, 0x2000, "/c", 0));
	mappings_free(&mappings);
}

/* Against the plainest model there is: one name for each of 64 pages. */
static void as_a_model_of_single_pages(void)
{
	static const char *const texts[] = { "/a", "/b", "/c", "/d" };
	struct mappings mappings = { 0 };
	const char *pages[64] = { NULL };
	uint64_t offsets[64] = { 0 };
	uint64_t state = 7;
	int wrong = 0;

	for (int i = 0; i < 2000; i++) {
		uint64_t first, count, offset;

		state = state * 6364136223846793005u + 1442695040888963407u;
		first = state >> 58;
		count = 1 + (state >> 50) % 20;
		offset = (state >> 30) % 1000;
		if (first + count > 64)
			count = 64 - first;
		add(&mappings, 9, first, first + count, offset, texts[i % 4]);
		for (uint64_t page = first; page < first + count; page++) {
			pages[page] = texts[i % 4];
			offsets[page] = offset + page - first;
		}
		for (uint64_t page = 0; page < 64; page++)
			wrong += !is_there(&mappings, 9, page, pages[page], offsets[page]);
	}
	CHECK_EQUAL(wrong, 0);
	mappings_free(&mappings);
}

static void children_start_with_a_copy(void)
{
	struct mappings mappings = { 0 };

	add(&mappings, 1, 0x1000, 0x2000, 0, "/a");
	CHECK_EQUAL(mappings_fork(&mappings, 2, 1), 0);
	add(&mappings, 1, 0x1000, 0x2000, 0, "/later");
	CHECK(is_there(&mappings, 2, 0x1000, "/a", 0));
	CHECK_EQUAL(mappings_exec(&mappings, 2), 0);
	CHECK(is_there(&mappings, 2, 0x1000, NULL, 0));
	CHECK(is_there(&mappings, 1, 0x1000, "/later", 0));
	/* A thread: nothing changes. */
	CHECK_EQUAL(mappings_fork(&mappings, 1, 1), 0);
	CHECK(is_there(&mappings, 1, 0x1000, "/later", 0));
	mappings_free(&mappings);
}

static void numbers_are_used_again(void)
{
	struct mappings mappings = { 0 };

	add(&mappings, 1, 0x1000, 0x2000, 0, "/a");
	add(&mappings, 2, 0x1000, 0x2000, 0, "/b");
	mappings_exit(&mappings, 2);
	/* Its other threads may still have samples. */
	CHECK(is_there(&mappings, 2, 0x1000, "/b", 0));
	CHECK_EQUAL(mappings_fork(&mappings, 2, 1), 0);
	for (uint32_t pid = 100; pid < 100 + 3 * ENDED_KEPT; pid++) {
		CHECK_EQUAL(mappings_fork(&mappings, pid, 1), 0);
		mappings_exit(&mappings, pid);
	}
	CHECK(is_there(&mappings, 2, 0x1000, "/a", 0));
	CHECK(is_there(&mappings, 100, 0x1000, NULL, 0));
	mappings_free(&mappings);
}

static void made_up_process(const char *maps)
{
	char path[200];
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/77/maps", root);
	file = fopen(path, "w");
	CHECK(file != NULL);
	if (!file)
		return;
	fputs(maps, file);
	fclose(file);
}

static void processes_that_ran_before_are_looked_up(void)
{
	struct mappings mappings = { 0 };

	made_up_process("00400000-00402000 r-xp 00001000 fe:01 1234    /opt/a program\n"
			"00500000-00600000 rw-p 00000000 00:00 0       [heap]\n"
			"garbage\n"
			"7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
			"7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n");
	CHECK(is_there(&mappings, 77, 0x400010, "/opt/a program", 0x1010));
	CHECK(is_there(&mappings, 77, 0x7f0000000000, "[anonymous]", 0));
	/* Only code was asked for. */
	CHECK(is_there(&mappings, 77, 0x500000, NULL, 0));
	made_up_process("00700000-00800000 r-xp 00000000 fe:01 1 /late\n");
	CHECK(is_there(&mappings, 77, 0x700000, NULL, 0));
	mappings_round(&mappings);
	CHECK(is_there(&mappings, 77, 0x700000, "/late", 0));
	CHECK_EQUAL(mappings_read(&mappings, 78, 1), 0);
	mappings_free(&mappings);
}

static void below_the_stack_is_the_stack(void)
{
	struct mappings mappings = { 0 };
	const struct mapping *found;

	add(&mappings, 1, 0x7f0000000000, 0x7f0000001000, 0, "/a");
	add(&mappings, 1, 0x7ffc00000000, 0x7ffc00021000, 0, "[stack]");
	found = mappings_find(&mappings, 1, 0x7ffbfffff000, 0);
	CHECK(found && found->start == 0x7ffc00000000);
	CHECK(mappings_find(&mappings, 1, 0x7ffb00000000, 0) == NULL);
	CHECK(mappings_find(&mappings, 1, 0x7efffffff000, 0) == NULL);
	mappings_free(&mappings);
}

static void bss_follows_the_executable(void)
{
	struct mappings mappings = { 0 };

	add(&mappings, 1, 0x400000, 0x402000, 0, "/app");
	add(&mappings, 1, 0x403000, 0x404000, 0x2000, "/app");
	add(&mappings, 1, 0x404000, 0x500000, 0, "[anonymous]");
	/* It was split since; what comes after a gap is none of it. */
	add(&mappings, 1, 0x440000, 0x480000, 0, "[anonymous]");
	add(&mappings, 1, 0x501000, 0x600000, 0, "[anonymous]");
	add(&mappings, 1, 0x7f0000000000, 0x7f0000001000, 0, "/lib");
	add(&mappings, 1, 0x7f0000001000, 0x7f0000002000, 0, "[anonymous]");
	CHECK(mappings_is_bss(&mappings, 1, 0x404000));
	CHECK(mappings_is_bss(&mappings, 1, 0x450000));
	CHECK(mappings_is_bss(&mappings, 1, 0x4fffff));
	CHECK(!mappings_is_bss(&mappings, 1, 0x403fff));
	CHECK(!mappings_is_bss(&mappings, 1, 0x500000));
	CHECK(!mappings_is_bss(&mappings, 1, 0x501000));
	/* Anonymous memory of any kind may be mapped behind a library. */
	CHECK(!mappings_is_bss(&mappings, 1, 0x7f0000001000));
	CHECK(!mappings_is_bss(&mappings, 2, 0x404000));
	mappings_free(&mappings);
}

static int named(const char *text, const char *expected)
{
	size_t length = strlen(text);
	const char *found = mapping_name(text, &length);

	return length == strlen(expected) && strncmp(found, expected, length) == 0;
}

static void memory_without_a_file_has_names(void)
{
	CHECK(named("//anon", "[anonymous]"));
	CHECK(named("", "[anonymous]"));
	CHECK(named("[anon:glibc: malloc arena]", "[anonymous]"));
	CHECK(named("/anon_hugepage (deleted)", "[anonymous]"));
	CHECK(named("/dev/zero (deleted)", "[shared]"));
	CHECK(named("/memfd:pulse (deleted)", "[shared]"));
	CHECK(named("/SYSV00000000 (deleted)", "[shared]"));
	CHECK(named("[stack:123]", "[stack]"));
	CHECK(named("[heap]", "[heap]"));
	CHECK(named("/usr/bin/cat", "/usr/bin/cat"));
}

static void names_are_kept_once(void)
{
	static const unsigned char one[20] = { 1 }, two[20] = { 2 };
	struct names names = { 0 };
	uint32_t first = names_number(&names, "/a/path", 2, NULL, 0);
	char text[32];

	CHECK_EQUAL(names_number(&names, "/a", 2, NULL, 0), first);
	CHECK(names_number(&names, "/a", 2, one, 20) != first);
	CHECK_EQUAL(names_number(&names, "/a", 2, one, 20), first + 1);
	CHECK(names_number(&names, "/a", 2, two, 20) != first + 1);
	for (int i = 0; i < 5000; i++)
		names_number(&names, text, (size_t)snprintf(text, sizeof(text), "/%d", i), NULL, 0);
	CHECK_EQUAL(names.count, 5003);
	CHECK(strcmp(names.list[names_number(&names, "/4999", 5, NULL, 0)].text, "/4999") == 0);
	CHECK_EQUAL(names.count, 5003);
	names_free(&names);
}

static const struct check_test tests[] = {
	{ "later mappings replace earlier ones", later_mappings_replace_earlier_ones },
	{ "as a model of single pages", as_a_model_of_single_pages },
	{ "children start with a copy; exec empties it", children_start_with_a_copy },
	{ "numbers of processes are used again", numbers_are_used_again },
	{ "processes that ran before are looked up", processes_that_ran_before_are_looked_up },
	{ "below the stack is the stack", below_the_stack_is_the_stack },
	{ "bss follows the executable", bss_follows_the_executable },
	{ "memory without a file has names", memory_without_a_file_has_names },
	{ "names are kept once", names_are_kept_once },
};

int main(void)
{
	char path[200];
	int failed;

	if (!mkdtemp(root))
		return 1;
	snprintf(path, sizeof(path), "%s/proc", root);
	mkdir(path, 0700);
	strcat(path, "/77");
	mkdir(path, 0700);
	setenv("TLBCOST_ROOT", root, 1);
	failed = check_run(tests, sizeof(tests) / sizeof(*tests));
	strcat(path, "/maps");
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	rmdir(root);
	return failed;
}
