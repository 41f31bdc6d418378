/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "size.h"

static const char usage[] =
	"Usage: tlbcost-calibrate [OPTION...]\n"
	"Measure what TLB misses and page faults cost on this machine.\n"
	"\n"
	"  --help                 print this and stop\n"
	"  --huge-method METHOD   where huge pages come from: thp or hugetlb\n"
	"  --max-memory BYTES     touch at most this much (suffixes k, M, G)\n"
	"  --output FILE          write the samples there; - is standard output (default)\n"
	"  --page-size BYTES      measure this page size only; may be repeated\n"
	"  --progress-fd N        write lines `progress <percent>` to descriptor N\n"
	"  --seed N               seed of the random orders\n"
	"  --time-limit SECONDS   end after this time at the latest (default 20)\n";

int complain(int code, const char *what, const char *why, const char *hint)
{
	fprintf(stderr, "tlbcost: %s: %s\n", what, why);
	if (hint)
		fprintf(stderr, "tlbcost: hint: %s\n", hint);
	return code;
}

static int parse_number(const char *text, double most, double *number)
{
	char *end;

	errno = 0;
	*number = strtod(text, &end);
	return errno || end == text || *end || !(*number >= 0) || *number > most ? -1 : 0;
}

static int bad_option(const char *option, const char *value)
{
	char what[256];

	snprintf(what, sizeof(what), "--%s %.180s", option, value);
	return complain(USAGE, what, "not a valid value", "tlbcost-calibrate --help");
}

int parse_options(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "huge-method", required_argument, NULL, 'm' },
		{ "max-memory", required_argument, NULL, 'M' },
		{ "output", required_argument, NULL, 'o' },
		{ "page-size", required_argument, NULL, 'p' },
		{ "progress-fd", required_argument, NULL, 'f' },
		{ "seed", required_argument, NULL, 's' },
		{ "time-limit", required_argument, NULL, 't' },
		{ 0 },
	};
	int c, index = 0, bad = 0;
	double number = 0;

	while ((c = getopt_long(argc, argv, "", known, &index)) != -1) {
		switch (c) {
		case 'h':
			fputs(usage, stdout);
			return DONE;
		case 'm':
			options->huge_method = optarg;
			bad = strcmp(optarg, "thp") != 0 && strcmp(optarg, "hugetlb") != 0;
			break;
		case 'M':
			bad = parse_size(optarg, &options->max_memory) != 0 ||
			      options->max_memory == 0;
			break;
		case 'o':
			options->output = optarg;
			break;
		case 'p':
			bad = options->size_count == MAX_SIZES ||
			      parse_size(optarg, &options->page_sizes[options->size_count++]) != 0;
			break;
		case 'f':
			bad = parse_number(optarg, 1 << 20, &number) != 0;
			options->progress_fd = (int)number;
			break;
		case 's':
			bad = parse_number(optarg, 9e15, &number) != 0;
			options->seed = (uint64_t)number;
			break;
		case 't':
			bad = parse_number(optarg, 3600, &number) != 0 || number < 1;
			options->time_limit = number;
			break;
		default:
			fputs("tlbcost: hint: tlbcost-calibrate --help\n", stderr);
			return USAGE;
		}
		if (bad)
			return bad_option(known[index].name, optarg);
	}
	return optind < argc ? complain(USAGE, argv[optind], "unexpected word",
					"tlbcost-calibrate --help") : -1;
}
