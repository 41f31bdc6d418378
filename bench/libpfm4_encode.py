# SPDX-License-Identifier: GPL-2.0-or-later
"""What does a build of libpfm4 make of event strings?

usage: libpfm4-encode LIBRARY, with strings on standard input, one a line. For each it prints
`type config config1 how`, tab-separated: how is `perf_event`; or `codes`, where the library gives
the code but no perf_event_attr (type and config1 are then NA); or `-` and the library's reason.

It stands alone, since the Python of another architecture runs it, in an emulator.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

# perfmon/pfmlib.h and perfmon/pfmlib_perf_event.h
_SUCCESS = 0
_PLM0_AND_PLM3 = 0x1 | 0x8
_OS_PERF_EVENT_EXT = 2
_ATTR_BYTES = 136


class _Arguments(ctypes.Structure):
    """pfm_perf_encode_arg_t."""

    _fields_ = (
        ("attr", ctypes.c_void_p),
        ("fstr", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("idx", ctypes.c_int),
        ("cpu", ctypes.c_int),
        ("flags", ctypes.c_int),
    )


def encode(library: ctypes.CDLL, string: str) -> str:
    """One line of the output."""
    attr = ctypes.create_string_buffer(_ATTR_BYTES)
    arguments = _Arguments(ctypes.addressof(attr), None, ctypes.sizeof(_Arguments), 0, 0, 0)
    status = library.pfm_get_os_event_encoding(
        string.encode(), _PLM0_AND_PLM3, _OS_PERF_EVENT_EXT, ctypes.byref(arguments)
    )
    if status == _SUCCESS:
        kind, _, config = struct.unpack_from("=IIQ", attr)
        (config1,) = struct.unpack_from("=Q", attr, 56)
        return f"{kind:#x}\t{config:#x}\t{config1:#x}\tperf_event"
    codes, number = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_int(0)
    bare = library.pfm_get_event_encoding(
        string.encode(), _PLM0_AND_PLM3, None, None, ctypes.byref(codes), ctypes.byref(number)
    )
    if bare == _SUCCESS and number.value > 0:
        return f"NA\t{codes[0]:#x}\tNA\tcodes"
    return f"-\t{library.pfm_strerror(status).decode()}"


def main() -> None:
    """Encode what stands on standard input."""
    os.environ["LIBPFM_ENCODE_INACTIVE"] = "1"
    library = ctypes.CDLL(sys.argv[1])
    library.pfm_strerror.restype = ctypes.c_char_p
    status = library.pfm_initialize()
    if status != _SUCCESS:
        sys.exit(f"pfm_initialize: {library.pfm_strerror(status).decode()}")
    for line in sys.stdin:
        print(encode(library, line.strip()))


if __name__ == "__main__":
    main()
