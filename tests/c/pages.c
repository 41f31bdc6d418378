/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which of a program's threads and children touches N fresh base pages, so that they fault? */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *touch(void *context)
{
	size_t pages = *(const size_t *)context;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *bytes = mmap(NULL, pages * page, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		err(1, "mmap");
	madvise(bytes, pages * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++)
		((volatile char *)bytes)[i * page] = 1;
	return NULL;
}

static void in_thread(size_t *pages)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, touch, pages) != 0)
		err(1, "pthread_create");
	pthread_join(thread, NULL);
}

static void in_child(size_t *pages)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		touch(pages);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* The child is gone before its own child begins, and that is gone before we end. */
static void in_orphan(size_t *pages)
{
	int gone[2], done[2];
	char byte;

	if (pipe(gone) < 0 || pipe(done) < 0)
		err(1, "pipe");
	if (fork() == 0) {
		if (fork() == 0) {
			close(gone[1]);
			close(done[0]);
			if (read(gone[0], &byte, 1) == 0)
				touch(pages);
			_exit(0);
		}
		_exit(0);
	}
	close(done[1]);
	wait(NULL);
	close(gone[1]);
	if (read(done[0], &byte, 1) != 0)
		errx(1, "the orphan did not end");
}

/* For each line of input: touch in a thread that starts now, and say so. */
static void on_request(size_t *pages)
{
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		in_thread(pages);
		puts("touched");
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(size_t *pages);
	} modes[] = {
		{ "thread", in_thread }, { "child", in_child },
		{ "orphan", in_orphan }, { "request", on_request },
	};
	size_t pages = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;

	if (!pages)
		errx(2, "usage: pages self|thread|child|orphan|request PAGES");
	if (strcmp(argv[1], "self") == 0) {
		touch(&pages);
		return 0;
	}
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(argv[1], modes[i].name) == 0) {
			modes[i].run(&pages);
			return 0;
		}
	errx(2, "unknown mode: %s", argv[1]);
}
