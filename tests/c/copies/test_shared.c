/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A program that shares memory in every way, and a checker: while the program stands still, copies
 * and arms do its work, and not a byte or a hole of what it shares may change.  SHARED_COPIES and
 * SHARED_ARMS say how many; 40 and 4 by default.
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "arm_programs.h"
#include "arms.h"
#include "follow.h"
#include "processes.h"
#include "thread_facts.h"
#include "translator.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define PAGE ((size_t)4096)
#define OBJECT_BYTES (256 * PAGE)
#define SLOTS 16u
#define SLOT_BYTES (OBJECT_BYTES / SLOTS)

/* Mapped here and, after the fork, in the program. */
enum { MEMFD, ANONYMOUS, ON_DISK, SYSV, GUARDED, HIDDEN, POOL, RING, OBJECTS };

static struct object {
	unsigned char *memory;
	int fd;			/* -1: it has none */
	unsigned char before[OBJECT_BYTES];
	blkcnt_t blocks;
} objects[OBJECTS];
/* CPU time of the program while it stands still. */
static uint64_t held_cpu_ns;
static const volatile unsigned char *read_only;
static struct io_uring_params ring;
static struct io_uring_sqe *ring_requests;	/* NULL: the kernel gives no rings */
static int ring_fd;

static unsigned char *map(int fd, int protection)
{
	return mmap(NULL, OBJECT_BYTES, protection,
		    MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
}

/* The largest one: its completions alone have OBJECT_BYTES. */
static void make_ring(struct object *object)
{
	object->fd = -1;
	const int fd = (int)syscall(SYS_io_uring_setup, 32768, &ring);
	if (fd < 0) {
		printf("# no io_uring: %s\n", strerror(errno));
		object->memory = map(-1, PROT_READ | PROT_WRITE);
		return;
	}
	object->memory = mmap(NULL, ring.sq_off.array + ring.sq_entries * sizeof(unsigned),
			      PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
	ring_requests = mmap(NULL, ring.sq_entries * sizeof(*ring_requests),
			     PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES);
	ring_fd = fd;
}

/* One request through the ring, which must come back as the next completion. */
static void use_ring(uint64_t number)
{
	unsigned char *memory = objects[RING].memory;
	unsigned *sq_tail = (void *)(memory + ring.sq_off.tail);
	unsigned *cq_head = (void *)(memory + ring.cq_off.head);
	const unsigned *cq_tail = (void *)(memory + ring.cq_off.tail);
	const unsigned slot = *sq_tail % ring.sq_entries;
	const struct io_uring_cqe *completion =
		(void *)(memory + ring.cq_off.cqes + *cq_head % ring.cq_entries * 16);

	ring_requests[slot] = (struct io_uring_sqe){ .opcode = IORING_OP_NOP, .user_data = number };
	((unsigned *)(void *)(memory + ring.sq_off.array))[slot] = slot;
	__atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring_fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1 ||
	    __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE) != *cq_head + 1 ||
	    completion->user_data != number)
		_exit(8);
	__atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE);
}

static int make_objects(void)
{
	char path[] = "/tmp/tlbcost-shared-XXXXXX";
	int id = shmget(IPC_PRIVATE, OBJECT_BYTES, 0600);

	for (unsigned i = 0; i < OBJECTS; i++) {
		if (i == RING) {
			make_ring(&objects[i]);
			if (objects[i].memory == MAP_FAILED || ring_requests == MAP_FAILED)
				return -1;
			continue;
		}
		objects[i].fd = i == ON_DISK ? mkstemp(path) :
				i == ANONYMOUS || i == SYSV ? -1 : memfd_create("shared", 0);
		if (objects[i].fd >= 0 && ftruncate(objects[i].fd, OBJECT_BYTES) < 0)
			return -1;
		objects[i].memory = i == SYSV ? shmat(id, NULL, 0) :
				    map(objects[i].fd, PROT_READ | PROT_WRITE);
		if (objects[i].memory == MAP_FAILED)
			return -1;
		memset(objects[i].memory, 1, OBJECT_BYTES);
	}
	shmctl(id, IPC_RMID, NULL);
	read_only = mmap(NULL, OBJECT_BYTES, PROT_READ, MAP_SHARED, open(path, O_RDONLY | O_CLOEXEC),
			 0);
	unlink(path);
	return read_only == MAP_FAILED ? -1 : 0;
}

/* A number in a page that may be written only for as long as that takes. */
static void update(unsigned char *page, uint64_t number, int protection)
{
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	memcpy(page, &number, sizeof(number));
	mprotect(page, PAGE, protection);
}

static void do_rarely(uint64_t round)
{
	unsigned char *slot = objects[POOL].memory + round / 64 % SLOTS * SLOT_BYTES;
	unsigned char *again;

	switch (round / 64 % 6) {
	case 0:		/* a slot of a pool: freed, filled, and then ready */
		madvise(slot, SLOT_BYTES, MADV_REMOVE);
		memset(slot, (int)round | 1, SLOT_BYTES);
		break;
	case 1:		/* mapped a second time */
		again = mremap(objects[MEMFD].memory, 0, OBJECT_BYTES, MREMAP_MAYMOVE);
		if (again == MAP_FAILED)
			_exit(5);
		memcpy(again + PAGE, &round, sizeof(round));
		munmap(again, OBJECT_BYTES);
		break;
	case 2:
		madvise(objects[MEMFD].memory, OBJECT_BYTES, MADV_PAGEOUT);
		madvise(objects[ANONYMOUS].memory, OBJECT_BYTES, MADV_DONTNEED);
		break;
	case 3:
		madvise(objects[ON_DISK].memory, OBJECT_BYTES, MADV_COLLAPSE);
		msync(objects[ON_DISK].memory, OBJECT_BYTES, MS_ASYNC);
		break;
	case 4:		/* through a descriptor */
		if (pwrite(objects[POOL].fd, &round, sizeof(round), 64) != sizeof(round))
			_exit(5);
		fallocate(objects[POOL].fd, 3 /* KEEP_SIZE | PUNCH_HOLE */, 8192, 4096);
		break;
	default:
		syscall(SYS_futex, objects[SYSV].memory, FUTEX_WAKE, 1, NULL, NULL, 0);
		memcpy(objects[SYSV].memory + PAGE, objects[MEMFD].memory, 32 * PAGE);
	}
}

static void share(int output)
{
	volatile uint64_t *words = table();
	uint64_t sum = 0;

	mprotect(objects[GUARDED].memory, OBJECT_BYTES, PROT_READ);
	mprotect(objects[HIDDEN].memory, OBJECT_BYTES, PROT_NONE);
	say(output);
	for (uint64_t round = 0;; round++) {
		for (unsigned i = 0; i < 200; i++) {
			sum = sum * UINT64_C(6364136223846793005) + 1442695040888963407u;
			words[(sum >> 33) % WORDS] += sum;
			sum += read_only[(sum >> 40) % OBJECT_BYTES];
		}
		if (pread(objects[ON_DISK].fd, objects[MEMFD].memory + 2 * PAGE, 64, 0) != 64)
			_exit(6);
		memcpy(objects[MEMFD].memory + sum % (OBJECT_BYTES - 8), &round, 8);
		memcpy(objects[ON_DISK].memory + round % 200 * PAGE, &sum, 8);
		__atomic_fetch_add((uint64_t *)(void *)objects[ANONYMOUS].memory, 1,
				   __ATOMIC_SEQ_CST);
		__atomic_fetch_or(objects[SYSV].memory + 64, 3, __ATOMIC_SEQ_CST);
		if (round % 16 == 0) {
			update(objects[GUARDED].memory, round, PROT_READ);
			update(objects[HIDDEN].memory, round, PROT_NONE);
		}
		if (round % 64 == 0)
			do_rarely(round);
		if (round % 8 == 0 && ring_requests)
			use_ring(round);
	}
}

/* Its bytes, and blocks if it has a descriptor: a mapping would fill the holes that it reads. */
static void read_object(const struct object *object, unsigned char *bytes, blkcnt_t *blocks)
{
	struct stat status = { .st_blocks = 0 };

	if (object->fd < 0)
		memcpy(bytes, object->memory, OBJECT_BYTES);
	else if (pread(object->fd, bytes, OBJECT_BYTES, 0) != (ssize_t)OBJECT_BYTES ||
		 fstat(object->fd, &status) < 0)
		CHECK(false);
	*blocks = status.st_blocks;
}

/*
 * A thread is stopped a little before it leaves its CPU, and may be preempted between.  Who reads its
 * system call waits until it has left (the kernel's wait_task_inactive), or is told that it runs.
 */
static void wait_off_cpu(pid_t program)
{
	char path[64], text[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/syscall", (int)program);
	do {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = read(fd, text, sizeof(text));
		close(fd);
	} while (n >= 7 && !memcmp(text, "running", 7));
	CHECK(n > 0);
}

static void hold(pid_t program)
{
	struct thread_facts facts = { .state = 'R' };

	kill(program, SIGSTOP);
	while (facts.state != 'T' && thread_facts_read(program, program, &facts) == 0)
		injected_nap(100);
	wait_off_cpu(program);
	held_cpu_ns = process_cpu_ns(program);
	for (unsigned i = 0; i < OBJECTS; i++)
		read_object(&objects[i], objects[i].before, &objects[i].blocks);
}

/* How many objects differ from what they were.  The program must not have run. */
static unsigned changes(pid_t program)
{
	static unsigned char now[OBJECT_BYTES];
	unsigned count = 0;
	blkcnt_t blocks;

	CHECK_EQUAL(process_cpu_ns(program), held_cpu_ns);
	for (unsigned i = 0; i < OBJECTS; i++) {
		read_object(&objects[i], now, &blocks);
		/* A disk's file gets its blocks when it is written back. */
		if (memcmp(objects[i].before, now, OBJECT_BYTES) == 0 &&
		    (i == ON_DISK || objects[i].blocks == blocks))
			continue;
		printf("# object %u has changed, %ld blocks to %ld\n", i, (long)objects[i].blocks,
		       (long)blocks);
		count++;
	}
	return count;
}

/* The `number`th copy; every other one with a recording of its next calls.  Returns 0, or -1. */
static int make_copy(const struct injected *injected, unsigned long number, uint32_t calls,
		     struct copy *copy, struct recording *recording)
{
	struct injector_request request = injected_request(injected);
	struct injector_answer answer;
	int recorded = -1, rc;

	request.record_calls = number % 2 ? calls : 0;
	/* Both ways to fork it. */
	request.sibling = number % 4 < 2;
	request.record_ms = 20;
	for (unsigned tries = 0;; tries++) {
		if (injector_ask_recording(injected->socket, &request, &answer, &recorded) < 0)
			return -1;
		if (answer.refusal == INJECTED)
			break;
		/* On a busy machine it may not stop in time. */
		if (answer.refusal != REFUSED_BUSY || tries == 100) {
			printf("# refused: %d, %s\n", (int)answer.refusal, strerror(answer.error));
			return -1;
		}
		injected_nap(1000);
	}
	*copy = answer.copy[0];
	rc = recording_open(recording, recorded);
	if (recorded >= 0)
		close(recorded);
	hold(injected->program);
	return rc < 0 || copy_take(copy) < 0 ? -1 : 0;
}

static bool count_block(void *context, const struct code_block *block, const uint64_t *addresses,
			uint64_t next)
{
	uint64_t *left = context;

	(void)block;
	(void)addresses;
	(void)next;
	return --*left > 0;
}

static unsigned long asked(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : otherwise;
}

static void begin_program(struct injected *injected)
{
	char byte;

	CHECK_EQUAL(make_objects(), 0);
	CHECK_EQUAL(injected_start(injected, share), 0);
	CHECK_EQUAL(read(injected->from_program, &byte, 1), 1);
}

static void end_program(struct injected *injected)
{
	int status;

	/* It would have ended by itself with another code. */
	kill(injected->program, SIGKILL);
	status = injected_end(injected);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(copies_change_nothing_that_is_shared)
{
	struct translator *translator = translator_make();
	const struct follow_limits limits = { .time_ns = UINT64_C(60000000000) };
	const unsigned long most = asked("SHARED_COPIES", 40);
	unsigned long made = 0, changed = 0, filled = 0, by_call = 0, replayed = 0;
	struct injected injected;

	begin_program(&injected);
	for (unsigned long i = 0; i < most; i++) {
		uint64_t blocks = 200000;
		const struct watcher watcher = { .executed = count_block, .context = &blocks };
		struct recording recording = { .records = NULL };
		struct followed followed = { .end = FOLLOW_FAILED };
		struct copy copy = { .pid = 0 };

		if (make_copy(&injected, i, 200, &copy, &recording) < 0)
			break;
		follow(translator, &copy, &recording, &limits, &watcher, &followed);
		/* A fault: the kernel lets nobody read a ring, so it is not there. */
		CHECK(followed.end == FOLLOW_ENOUGH || followed.end == FOLLOW_CALL ||
		      (followed.end == FOLLOW_FAULT && ring_requests));
		changed += changes(injected.program);
		made++;
		filled += followed.shared_pages > 0;
		by_call += followed.end == FOLLOW_CALL;
		replayed += followed.replayed;
		copy_kill(&copy);
		recording_close(&recording);
		kill(injected.program, SIGCONT);
		injected_nap((unsigned)random() % 2000);
	}
	printf("# %lu copies: %lu used shared memory, %lu ended at a call, %lu calls replayed\n", made,
	       filled, by_call, replayed);
	CHECK_EQUAL(made, most);
	CHECK_EQUAL(changed, 0);
	CHECK(filled > 0 && by_call > 0 && replayed > 0);
	end_program(&injected);
	translator_free(translator, NULL);
}

TEST(arms_change_nothing_that_is_shared)
{
	const struct arms_options options = {
		.slices = 1, .warm_ns = 5 * MS, .measured_ns = 10 * MS,
		.huge_page_bytes = HUGE_PAGE, .time_ns = 10000 * MS,
	};
	const unsigned long most = asked("SHARED_ARMS", 4);
	unsigned long made = 0, changed = 0;
	struct slice_rows rows = { 0 };
	struct injected injected;
	uint64_t random_state = 7;

	begin_program(&injected);
	for (unsigned long i = 0; i < most; i++) {
		struct recording recording = { .records = NULL };
		struct copy copy = { .pid = 0 };

		if (make_copy(&injected, i, 1000, &copy, &recording) < 0)
			break;
		CHECK_EQUAL(arms_measure(&rows, &options, &copy,
					 recording_calls(&recording) ? &recording : NULL,
					 (uint32_t)i, &random_state), 0);
		changed += changes(injected.program);
		made++;
		copy_kill(&copy);
		recording_close(&recording);
		kill(injected.program, SIGCONT);
		injected_nap((unsigned)random() % 2000);
	}
	printf("# arms of %lu copies, %zu rows\n", made, rows.count);
	CHECK_EQUAL(made, most);
	CHECK_EQUAL(changed, 0);
	CHECK(rows.count > 0);
	slice_rows_free(&rows);
	end_program(&injected);
}

CHECK_MAIN
