/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Run a program whose memory asks for transparent huge pages as it is made, or let a running one ask. */
#include <errno.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "live.h"
#include "program.h"
#include "supervisor.h"
#include "sysfile.h"
#include "table.h"
#include "user.h"

static const char help[] =
	"usage: tlbcost-thp [--output FILE] [--text] [--user UID:GID] [--] COMMAND [ARG...]\n"
	"       tlbcost-thp --pid PID [--no-collapse] [--output FILE]\n"
	"       tlbcost-thp --pid PID --switch on|off\n"
	"       tlbcost-thp --pid PID --huge-page ADDRESS\n"
	"\n"
	"Run COMMAND, and have each of its mappings ask for transparent huge pages as it\n"
	"is made; or have those of the process PID ask now, and move them.\n"
	"\n"
	"  --help           print this and stop\n"
	"  --huge-page ADDRESS  make one of the base pages that it has from there on\n"
	"  --no-collapse    leave it to the kernel to move the memory, some time later\n"
	"  --output FILE    write a 'thp' table of what its memory got\n"
	"  --pid PID        the process\n"
	"  --text           copy the code of COMMAND and its libraries to huge pages, too\n"
	"  --user UID:GID   run COMMAND as this user (needs root)\n"
	"  --switch on|off  let it have transparent huge pages, or none from now on\n"
	"\n"
	"Exits as COMMAND does, or with 128 + the signal that killed it; 4 if this\n"
	"machine has no huge pages for it, 125 if tlbcost-thp itself failed, 126 or 127\n"
	"if COMMAND could not be started.\n";

struct options {
	const char *table;
	const char *user;	/* NULL: as we are */
	char *const *argv;
	pid_t pid;	/* 0: a program is run */
	int collapse;
	int text;
	const char *change;	/* "on", "off", or NULL */
	const char *huge_page;	/* its address, or NULL */
};

static struct options parse_options(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "huge-page", required_argument, NULL, 'a' },
		{ "no-collapse", no_argument, NULL, 'n' },
		{ "output", required_argument, NULL, 'o' },
		{ "pid", required_argument, NULL, 'p' },
		{ "text", no_argument, NULL, 't' },
		{ "user", required_argument, NULL, 'u' },
		{ "switch", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options = { .collapse = 1 };
	int c;

	while ((c = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(help, stdout);
			exit(fflush(stdout) == 0 ? 0 : EXIT_OWN_FAILURE);
		case 'a':
			options.huge_page = optarg;
			break;
		case 'o':
			options.table = optarg;
			break;
		case 'n':
			options.collapse = 0;
			break;
		case 'p':
			options.pid = (pid_t)atoi(optarg);
			break;
		case 't':
			options.text = 1;
			break;
		case 'u':
			options.user = optarg;
			break;
		case 's':
			options.change = optarg;
			if (!strcmp(optarg, "on") || !strcmp(optarg, "off"))
				break;
			/* fall through */
		default:
			fputs("tlbcost: hint: tlbcost-thp --help lists the options\n", stderr);
			exit(EXIT_OWN_FAILURE);
		}
	}
	options.argv = argv + optind;
	if (!argv[optind] && options.pid <= 0)
		exit(complain(EXIT_OWN_FAILURE, "nothing to run", "no COMMAND was given",
			      "tlbcost-thp [--output FILE] -- COMMAND [ARG...]"));
	return options;
}

static int switch_process(const struct options *options)
{
	const char *failed;

	if (live_switch(options->pid, !strcmp(options->change, "off"), &failed) < 0)
		return complain(EXIT_CANNOT_MEASURE, failed, strerror(errno), NULL);
	return 0;
}

static int make_huge_page(const struct options *options, uint64_t huge_page_bytes)
{
	const char *failed;
	char *end;
	const uint64_t address = strtoull(options->huge_page, &end, 0);

	if (!address || *end || address % huge_page_bytes)
		return complain(EXIT_OWN_FAILURE, options->huge_page,
				"not the address of a huge page", NULL);
	if (live_collapse(options->pid, address, huge_page_bytes, &failed) < 0)
		return complain(EXIT_CANNOT_MEASURE, failed, strerror(errno), NULL);
	return 0;
}

static const char columns[] =
	"anonymous_before_bytes huge_before_bytes anonymous_bytes huge_bytes requests complete";

static int ask_process(const struct options *options, uint64_t huge_page_bytes)
{
	struct live_result result;
	const char *failed;
	struct table table;

	if (live_ask(options->pid, options->collapse, huge_page_bytes, &result, &failed) < 0)
		return complain(EXIT_CANNOT_MEASURE, failed, strerror(errno), NULL);
	if (!options->table)
		return 0;
	if (table_open(&table, options->table, "thp_process", 1) < 0)
		return complain(EXIT_OWN_FAILURE, options->table, strerror(errno), NULL);
	table_columns(&table, columns);
	table_count(&table, result.anonymous_before_bytes);
	table_count(&table, result.huge_before_bytes);
	table_count(&table, result.anonymous_bytes);
	table_count(&table, result.huge_bytes);
	table_count(&table, result.requests);
	table_count(&table, (uint64_t)result.complete);
	if (table_close(&table) < 0)
		return complain(EXIT_OWN_FAILURE, options->table, strerror(errno), NULL);
	return 0;
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv);
	struct user_account user;
	struct supervised what = { .argv = options.argv, .table = options.table };
	const char *failed;
	uint64_t size;
	int code;

	if (sysfile_number(&size, "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") < 0)
		return complain(EXIT_CANNOT_MEASURE, "no transparent huge pages",
				"this kernel has none", NULL);
	if (program_hold_descriptors() < 0)
		return complain(EXIT_OWN_FAILURE, "cannot open /dev/null", strerror(errno), NULL);
	if (options.pid > 0 && options.change)
		return switch_process(&options);
	if (options.pid > 0 && options.huge_page)
		return make_huge_page(&options, size);
	if (options.pid > 0)
		return ask_process(&options, size);
	what.huge_page_bytes = size;
	what.text = options.text;
	if (options.user) {
		if (user_parse(&user, options.user) < 0)
			return complain(EXIT_OWN_FAILURE, options.user, strerror(errno),
					"--user UID:GID");
		what.user = &user;
	}
	code = supervisor_run(&what, &failed);
	if (code >= 0)
		return code;
	/* The reader of the table, or of its absence, says what to do. */
	return complain(errno == EPERM || errno == EACCES || errno == ENOSYS || errno == EINVAL ?
			EXIT_CANNOT_MEASURE : EXIT_OWN_FAILURE, failed, strerror(errno), NULL);
}
