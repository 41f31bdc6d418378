/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "size.h"

/* A chain's order is kept in numbers of 32 bits, and a shorter one is no chain. */
#define LEAST_LINES 2
#define MOST_CHAIN (1u << 30)

static const char usage[] =
	"Usage: tlbcost-calibrate [OPTION...]\n"
	"Measure what caches, TLB misses and page faults cost on this machine.\n"
	"\n"
	"  --at-hand                 first touches: of memory that was touched before\n"
	"  --cpu N                   stay on this CPU (default: where it was started)\n"
	"  --first-touches BYTES     time the first touch of each page of so much memory\n"
	"                            instead, on base and on huge pages\n"
	"  --help                    print this and stop\n"
	"  --huge-method METHOD      where huge pages come from: thp or hugetlb\n"
	"  --lines N[,N]...          measure chains of N lines (not in regions)\n"
	"  --max-memory BYTES        touch at most this much (suffixes k, M, G)\n"
	"  --measure GROUP[,GROUP]...  measure these of: cycles, faults, near, middle, far,\n"
	"                            dense, loads, stream, memory, residency (the default),\n"
	"                            large, stores, chains, ways, regions, code, caches\n"
	"  --output FILE             write the samples there; - is standard output (default)\n"
	"  --page-size BYTES         measure this page size only; may be repeated\n"
	"  --progress-fd N           write lines `progress <percent>` to descriptor N\n"
	"  --seed N                  seed of the random orders\n"
	"  --sweeps N                sweep each group N times\n"
	"  --time-limit SECONDS      end after this time at the latest (default 20)\n";

static int parse_number(const char *text, double least, double most, double *number)
{
	char *end;

	errno = 0;
	*number = strtod(text, &end);
	return errno || end == text || *end || !(*number >= least) || *number > most ? -1 : 0;
}

static int parse_groups(const char *text, unsigned *chosen)
{
	enum group_id id;
	size_t length;

	for (*chosen = 0;; text += length + 1) {
		length = strcspn(text, ",");
		id = group_named(text, length);
		if (id == GROUP_COUNT)
			return -1;
		*chosen |= 1u << id;
		if (!text[length])
			return 0;
	}
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int parse_lines(const char *text, struct options *options)
{
	size_t given = 0, kept = 0;
	unsigned long value;
	char *end;

	for (;; text = end + 1) {
		errno = 0;
		value = strtoul(text, &end, 10);
		if (errno || end == text || strchr("+- ", *text) || value < LEAST_LINES ||
		    value > MOST_CHAIN || given == MOST_LINES || (*end && *end != ','))
			return -1;
		options->lines[given++] = (uint32_t)value;
		if (!*end)
			break;
	}
	qsort(options->lines, given, sizeof(options->lines[0]), compare);
	for (size_t i = 0; i < given; i++)
		if (kept == 0 || options->lines[i] != options->lines[kept - 1])
			options->lines[kept++] = options->lines[i];
	options->line_count = kept;
	return 0;
}

static int bad_option(const char *option, const char *value)
{
	char what[256];

	snprintf(what, sizeof(what), "--%s %.180s", option, value);
	return complain(USAGE, what, "not a valid value", "tlbcost-calibrate --help");
}

/* Take one option's value.  Returns 0, or -1 if it is not valid. */
static int take(int option, const char *value, struct options *options)
{
	double number = 0;
	int bad = 0;

	switch (option) {
	case 'c':
		bad = parse_number(value, 0, 1 << 20, &number);
		options->cpu = (int)number;
		return bad;
	case 'a':
		options->at_hand = true;
		return 0;
	case 'F':
		bad = parse_size(value, &options->first_touch_bytes);
		return bad || options->first_touch_bytes == 0 ? -1 : 0;
	case 'g':
		return parse_groups(value, &options->groups);
	case 'l':
		return parse_lines(value, options);
	case 'm':
		options->huge_method = value;
		return strcmp(value, "thp") == 0 || strcmp(value, "hugetlb") == 0 ? 0 : -1;
	case 'M':
		bad = parse_size(value, &options->max_memory_bytes);
		return bad || options->max_memory_bytes == 0 ? -1 : 0;
	case 'o':
		options->output = value;
		return 0;
	case 'p':
		if (options->size_count == PLAN_MOST_SIZES)
			return -1;
		return parse_size(value, &options->page_sizes[options->size_count++]);
	case 'f':
		bad = parse_number(value, 0, 1 << 20, &number);
		options->progress_fd = (int)number;
		return bad;
	case 's':
		bad = parse_number(value, 0, 9e15, &number);
		options->seed = (uint64_t)number;
		return bad;
	case 'n':
		bad = parse_number(value, 1, 100000, &number);
		options->sweeps = (unsigned)number;
		return bad;
	default:
		return parse_number(value, 0.1, 3600, &options->time_limit_s);
	}
}

int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{ "at-hand", no_argument, NULL, 'a' },
		{ "cpu", required_argument, NULL, 'c' },
		{ "first-touches", required_argument, NULL, 'F' },
		{ "help", no_argument, NULL, 'h' },
		{ "huge-method", required_argument, NULL, 'm' },
		{ "lines", required_argument, NULL, 'l' },
		{ "max-memory", required_argument, NULL, 'M' },
		{ "measure", required_argument, NULL, 'g' },
		{ "output", required_argument, NULL, 'o' },
		{ "page-size", required_argument, NULL, 'p' },
		{ "progress-fd", required_argument, NULL, 'f' },
		{ "seed", required_argument, NULL, 's' },
		{ "sweeps", required_argument, NULL, 'n' },
		{ "time-limit", required_argument, NULL, 't' },
		{ 0 },
	};
	int c, index = 0;

	while ((c = getopt_long(argc, argv, "", known, &index)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return DONE;
		}
		if (c == '?') {
			fputs("tlbcost: hint: tlbcost-calibrate --help\n", stderr);
			return USAGE;
		}
		if (take(c, optarg, options) != 0)
			return bad_option(known[index].name, optarg);
	}
	return optind < argc ? complain(USAGE, argv[optind], "unexpected word",
					"tlbcost-calibrate --help") : -1;
}
