/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parcel.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

struct parcel {
	struct msghdr header;
	struct iovec content;
	alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
};

static void wrap(struct parcel *parcel, const void *content, size_t bytes)
{
	memset(parcel, 0, sizeof(*parcel));
	parcel->content = (struct iovec){ (void *)(size_t)content, bytes };
	parcel->header.msg_iov = &parcel->content;
	parcel->header.msg_iovlen = 1;
	parcel->header.msg_control = parcel->control;
	parcel->header.msg_controllen = sizeof(parcel->control);
}

int parcel_send(int socket, const void *content, size_t bytes, int descriptor)
{
	struct parcel parcel;
	struct cmsghdr *control;
	ssize_t length;

	wrap(&parcel, content, bytes);
	if (descriptor < 0) {
		parcel.header.msg_control = NULL;
		parcel.header.msg_controllen = 0;
	} else {
		control = CMSG_FIRSTHDR(&parcel.header);
		control->cmsg_level = SOL_SOCKET;
		control->cmsg_type = SCM_RIGHTS;
		control->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(control), &descriptor, sizeof(int));
	}
	do
		length = sendmsg(socket, &parcel.header, MSG_NOSIGNAL);
	while (length < 0 && errno == EINTR);
	return length < 0 ? -1 : 0;
}

int parcel_receive(int socket, void *content, size_t bytes, int *descriptor)
{
	struct parcel parcel;
	struct cmsghdr *control;
	ssize_t length;

	*descriptor = -1;
	do {
		wrap(&parcel, content, bytes);
		length = recvmsg(socket, &parcel.header, MSG_CMSG_CLOEXEC);
	} while (length < 0 && errno == EINTR);
	if (length < 0)
		return -1;
	control = CMSG_FIRSTHDR(&parcel.header);
	if (control && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS)
		memcpy(descriptor, CMSG_DATA(control), sizeof(int));
	if ((size_t)length == bytes)
		return 0;
	if (*descriptor >= 0)
		close(*descriptor);
	*descriptor = -1;
	errno = length == 0 ? EPIPE : EPROTO;
	return -1;
}
