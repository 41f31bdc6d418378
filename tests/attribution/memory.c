/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Three arrays, one of which is used at random; which, and how it came about,
 * is the first argument.  Prints a sum that depends on every access.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (16u << 20)
#define STEPS 400000u

#define APART __attribute__((noinline))

static uint8_t still[BYTES], busy[BYTES];
static uint64_t sum;

static void check(int good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

APART static void use_at_random(const uint8_t *array, unsigned steps)
{
	uint64_t x = 88172645463325252u;

	for (unsigned i = 0; i < steps; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sum += array[x % BYTES];	/* the random line */
	}
}

APART static void use_in_order(uint8_t *array)
{
	for (unsigned i = 0; i < BYTES; i += 64)
		sum += array[i] += 1;
}

APART static uint8_t *make_quiet(void)
{
	uint8_t *made = malloc(BYTES);	/* the quiet array */

	check(made != NULL, "malloc");
	memset(made, 1, BYTES);
	return made;
}

APART static uint8_t *make_random(void)
{
	uint8_t *made = malloc(BYTES);	/* the random array */

	check(made != NULL, "malloc");
	memset(made, 2, BYTES);
	return made;
}

static uint8_t *map_file(const char *path)
{
	int file = open(path, O_RDWR | O_CREAT, 0600);
	uint8_t *made;

	check(file >= 0 && ftruncate(file, BYTES) == 0, path);
	made = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	check(made != MAP_FAILED, path);
	close(file);
	return made;
}

APART static uint8_t *move(void)
{
	uint8_t *made = mmap(NULL, BYTES / 2, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *in_the_way = mmap(made + BYTES / 2, 4096, PROT_NONE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(made != MAP_FAILED && in_the_way != MAP_FAILED, "mmap");
	memset(made, 3, BYTES / 2);
	made = mremap(made, BYTES / 2, BYTES, MREMAP_MAYMOVE);	/* moved */
	check(made != MAP_FAILED, "mremap");
	memset(made, 4, BYTES);
	return made;
}

/* Memory that is gone before the end. */
APART static void churn(void)
{
	for (int i = 0; i < 20; i++) {
		uint8_t *made = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		check(made != MAP_FAILED, "mmap");
		use_at_random(made, STEPS / 20);
		munmap(made, BYTES);
	}
}

/* Small blocks, in the heap that grows by brk. */
APART static void small(void)
{
	enum { COUNT = 1 << 16 };
	static uint64_t *blocks[COUNT];
	uint64_t x = 88172645463325252u;

	for (int i = 0; i < COUNT; i++) {
		blocks[i] = calloc(1, 200);
		check(blocks[i] != NULL, "calloc");
	}
	for (unsigned i = 0; i < STEPS; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		sum += ++*blocks[x % COUNT];
	}
}

static void *work(void *array)
{
	use_at_random(array, STEPS / 2);
	return NULL;
}

static void threads(uint8_t *array)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		check(pthread_create(&threads[i], NULL, work, array) == 0, "thread");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* The child is this program again. */
static void start(const char *self)
{
	pid_t child = fork();

	check(child >= 0, "fork");
	if (child == 0) {
		execl(self, self, "malloc", (char *)NULL);
		_exit(127);
	}
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "malloc";
	uint8_t *quiet = make_quiet(), *random = make_random();

	memset(still, 5, BYTES);
	use_in_order(quiet);
	use_in_order(random);
	use_in_order(still);
	if (!strcmp(what, "malloc"))
		use_at_random(random, STEPS);
	else if (!strcmp(what, "static"))
		use_at_random(busy, STEPS);
	else if (!strcmp(what, "file") && argc > 2)
		use_at_random(map_file(argv[2]), STEPS);
	else if (!strcmp(what, "mremap"))
		use_at_random(move(), STEPS);
	else if (!strcmp(what, "churn"))
		churn();
	else if (!strcmp(what, "heap"))
		small();
	else if (!strcmp(what, "threads"))
		threads(random);
	else if (!strcmp(what, "start"))
		start(argv[0]);
	else
		return 2;
	printf("%llu\n", (unsigned long long)sum);
	free(quiet);
	free(random);
	return 0;
}
