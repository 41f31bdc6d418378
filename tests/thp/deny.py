# SPDX-License-Identifier: GPL-2.0-or-later
"""Run a command that may not make one system call: deny.py NUMBER COMMAND [ARG...]."""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
RET_ALLOW, RET_ERRNO, EPERM = 0x7FFF0000, 0x00050000, 1
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06


class Program(ctypes.Structure):
    """What prctl(2) takes: struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("statements", ctypes.c_char_p))


def deny(number: int) -> None:
    """From now on the call fails with EPERM, here and in what is executed."""
    statements = (
        (LOAD, 0, 0, 0),
        (EQUAL, 0, 1, number),
        (RETURN, 0, 0, RET_ERRNO | EPERM),
        (RETURN, 0, 0, RET_ALLOW),
    )
    packed = b"".join(struct.pack("=HBBI", *each) for each in statements)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(statements), packed)), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    deny(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])
