/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many instructions does a program execute?  A plugin for QEMU's emulators
 * of user programs, which adds up those of the blocks that are executed; the
 * number is the last line on standard error.  QEMU's package has no header for
 * plugins: these are the declarations of its version 1.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;

EXPORT extern const int qemu_plugin_version;
EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv);

void qemu_plugin_register_vcpu_tb_trans_cb(
	uint64_t id, void (*translated)(uint64_t id, struct qemu_plugin_tb *block));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
/* Operation 0: add the number. */
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation,
					      void *sum, uint64_t number);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*ended)(uint64_t id, void *data),
				    void *data);

const int qemu_plugin_version = 1;

static uint64_t executed;

static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &executed,
						 qemu_plugin_tb_n_insns(block));
}

static void ended(uint64_t id, void *data)
{
	(void)id, (void)data;
	fprintf(stderr, "%llu\n", (unsigned long long)executed);
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info, (void)argc, (void)argv;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, ended, NULL);
	return 0;
}
