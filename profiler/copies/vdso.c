/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "vdso.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "code_cache.h"

static const uint64_t *offsets(void)
{
	static const char *const names[VDSO_CLOCKS] = { "__vdso_clock_gettime", "__vdso_gettimeofday",
						   "__vdso_time" };
	static uint64_t found[VDSO_CLOCKS];
	static bool known;
	const uint64_t start = getauxval(AT_SYSINFO_EHDR);
	void *library;

	if (known)
		return found;
	known = true;
	library = start ? dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD) : NULL;
	for (int i = 0; library && i < VDSO_CLOCKS; i++) {
		const uint64_t address = (uint64_t)(uintptr_t)dlsym(library, names[i]);

		found[i] = address > start ? address - start : 0;
	}
	return found;
}

uint64_t vdso_offset(enum vdso_clock clock)
{
	return offsets()[clock];
}

/* Which of them begins there; VDSO_CLOCKS: none. */
static int clock_at(const struct translator *translator, uint64_t address)
{
	const struct copy_mapping *mapping = copy_mappings_find(&translator->mappings, address);
	int i = 0;

	if (!mapping || strcmp(mapping->name, "[vdso]") != 0)
		return VDSO_CLOCKS;
	while (i < VDSO_CLOCKS && (!offsets()[i] || address - mapping->start != offsets()[i]))
		i++;
	return i;
}

bool vdso_is_clock(const struct translator *translator, uint64_t address)
{
	return clock_at(translator, address) < VDSO_CLOCKS;
}

/* What the clock showed `late_ns` ago. */
static struct timespec earlier(clockid_t clock, int64_t late_ns)
{
	const int64_t second = 1000000000;
	struct timespec time = { 0, 0 };
	int64_t ns;

	clock_gettime(clock, &time);
	ns = (int64_t)time.tv_sec * second + time.tv_nsec - late_ns;
	return (struct timespec){ ns / second, ns % second };
}

/* CPU clocks are the process's own. */
static bool is_wall_clock(uint64_t clock)
{
	return clock <= CLOCK_TAI && clock != CLOCK_PROCESS_CPUTIME_ID &&
	       clock != CLOCK_THREAD_CPUTIME_ID;
}

static int answer_clock(struct copy *copy, struct user_regs_struct *r, int64_t late_ns)
{
	const uint64_t arguments[6] = { r->rdi, r->rsi };
	struct timespec time;

	if (!is_wall_clock(r->rdi)) {
		r->rax = (unsigned long long)copy_call(copy, r, SYS_clock_gettime, arguments);
		return 0;
	}
	time = earlier((clockid_t)r->rdi, late_ns);
	r->rax = 0;
	return copy_write(copy, r->rsi, &time, sizeof(time));
}

static int answer_time_of_day(struct copy *copy, struct user_regs_struct *r, int64_t late_ns)
{
	const struct timespec time = earlier(CLOCK_REALTIME, late_ns);
	const struct timeval value = { time.tv_sec, time.tv_nsec / 1000 };

	r->rax = 0;
	return r->rdi ? copy_write(copy, r->rdi, &value, sizeof(value)) : 0;
}

int vdso_answer(const struct translator *translator, struct copy *copy, struct user_regs_struct *r,
		int64_t late_ns)
{
	uint64_t return_address;
	int rc = 0;

	switch (clock_at(translator, r->rip)) {
	case VDSO_CLOCK_GETTIME:
		rc = answer_clock(copy, r, late_ns);
		break;
	case VDSO_GETTIMEOFDAY:
		rc = answer_time_of_day(copy, r, late_ns);
		break;
	default:
		r->rax = (unsigned long long)earlier(CLOCK_REALTIME, late_ns).tv_sec;
		if (r->rdi)
			rc = copy_write(copy, r->rdi, &r->rax, sizeof(r->rax));
		break;
	}
	if (rc < 0 || copy_read(copy, r->rsp, &return_address, sizeof(return_address)) < 0)
		return -1;
	r->rip = return_address;
	r->rsp += sizeof(return_address);
	return 0;
}
