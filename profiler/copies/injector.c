/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "injector.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parcel.h"

/* In the child: become the injector.  What it needs is its socket. */
static void become(const char *path, int socket, int report)
{
	char *const argv[] = { (char *)(uintptr_t)"tlbcost-injector", NULL };
	int error;

	if (dup2(socket, INJECTOR_SOCKET) == INJECTOR_SOCKET)
		execv(path, argv);
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		_exit(126);
	_exit(127);
}

/* Descriptors as they are, but none at the number that the child needs. */
static int keep_clear(int *fd)
{
	int other;

	if (*fd != INJECTOR_SOCKET)
		return 0;
	other = fcntl(*fd, F_DUPFD_CLOEXEC, INJECTOR_SOCKET + 1);
	close(*fd);
	*fd = other;
	return other < 0 ? -1 : 0;
}

int injector_start(const char *path, pid_t *pid)
{
	int sockets[2] = { -1, -1 }, report[2] = { -1, -1 }, error = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -1;
	if (keep_clear(&sockets[0]) < 0 || keep_clear(&sockets[1]) < 0 ||
	    pipe2(report, O_CLOEXEC) < 0 || keep_clear(&report[0]) < 0 ||
	    keep_clear(&report[1]) < 0)
		goto failed;
	*pid = fork();
	if (*pid < 0)
		goto failed;
	if (*pid == 0)
		become(path, sockets[1], report[1]);
	close(report[1]);
	close(sockets[1]);
	report[1] = sockets[1] = -1;
	if (read(report[0], &error, sizeof(error)) == sizeof(error)) {
		waitpid(*pid, NULL, 0);
		errno = error;
		goto failed;
	}
	close(report[0]);
	return sockets[0];

failed:
	error = errno;
	for (unsigned i = 0; i < 2; i++) {
		if (sockets[i] >= 0)
			close(sockets[i]);
		if (report[i] >= 0)
			close(report[i]);
	}
	errno = error;
	return -1;
}

int injector_reply(int socket, const struct injector_answer *answer, int recording)
{
	return parcel_send(socket, answer, sizeof(*answer), recording);
}

int injector_ask_recording(int socket, const struct injector_request *request,
			   struct injector_answer *answer, int *recording)
{
	*recording = -1;
	if (parcel_send(socket, request, sizeof(*request), -1) < 0)
		return -1;
	if (parcel_receive(socket, answer, sizeof(*answer), recording) < 0)
		return -1;
	if (answer->helper)
		waitpid(answer->helper, NULL, __WALL);
	return 0;
}

int injector_ask(int socket, const struct injector_request *request,
		 struct injector_answer *answer)
{
	int recording, rc = injector_ask_recording(socket, request, answer, &recording);

	if (recording >= 0)
		close(recording);
	return rc;
}
