# SPDX-License-Identifier: GPL-2.0-or-later
"""The user for whom we act when sudo has made us root."""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class User:
    """The user who called sudo. `home` None: not in the user database."""

    uid: int
    gid: int
    home: Path | None


def calling_user() -> User | None:
    """The user who called sudo, if that is how we became root; else None."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() != 0 or not uid.isdigit() or int(uid) == 0:
        return None
    try:
        entry = pwd.getpwuid(int(uid))
    except KeyError:
        return User(int(uid), int(gid), None) if gid.isdigit() else None
    group = int(gid) if gid.isdigit() else entry.pw_gid
    return User(int(uid), group, Path(entry.pw_dir))


def become(user: User) -> None:
    """For good."""
    try:
        groups = os.getgrouplist(pwd.getpwuid(user.uid).pw_name, user.gid)
    except KeyError:
        groups = [user.gid]
    os.setgroups(groups)
    os.setgid(user.gid)
    os.setuid(user.uid)


@contextlib.contextmanager
def as_calling_user() -> Iterator[None]:
    """Access files as the user who called sudo: what is made is his; no link leads elsewhere."""
    user = calling_user()
    if user is None or user.home is None:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    os.setgroups(os.getgrouplist(pwd.getpwuid(user.uid).pw_name, user.gid))
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)
