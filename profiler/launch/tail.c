/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tail_add(struct tail *tail, const char *bytes, size_t length)
{
	if (length > TAIL_BYTES) {
		bytes += length - TAIL_BYTES;
		length = TAIL_BYTES;
	}
	while (length > 0) {
		size_t room = TAIL_BYTES - tail->next;
		size_t n = length < room ? length : room;

		memcpy(tail->bytes + tail->next, bytes, n);
		tail->next = (tail->next + n) % TAIL_BYTES;
		tail->length += n;
		bytes += n;
		length -= n;
	}
	if (tail->length > TAIL_BYTES)
		tail->length = TAIL_BYTES;
}

int tail_save(const struct tail *tail, const char *path)
{
	size_t start = (tail->next + TAIL_BYTES - tail->length) % TAIL_BYTES;
	size_t first = TAIL_BYTES - start;
	FILE *file = fopen(path, "we");
	int error = 0;

	if (!file)
		return -1;
	if (first > tail->length)
		first = tail->length;
	fwrite(tail->bytes + start, 1, first, file);
	fwrite(tail->bytes, 1, tail->length - first, file);
	if (fflush(file) != 0)
		error = errno;
	else if (ferror(file))
		error = EIO;
	if (fclose(file) != 0 && !error)
		error = errno;
	if (error) {
		unlink(path);
		errno = error;
		return -1;
	}
	return 0;
}
