"""Errors of a process's environment as one line: the error, its place, advice.

A port, a folder, room on a disk.  Any other error is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import errno

from rocketmq_emulator.disk.files import StoreInUse, StoreUnwritable
from rocketmq_emulator.disk.port import DiskFull, StoreDamaged
from rocketmq_emulator.facts import StoreRefused
from rocketmq_emulator.net.transport import AddressInUse, HostUnknown
from rocketmq_emulator.settings.setting_rules import SettingRefused

ADVICE: tuple[tuple[type[Exception], str], ...] = (
    (AddressInUse, "stop the process that uses it, or choose another port (0 = any free one)"),
    (HostUnknown, "correct the name, or give an IP address"),
    (StoreInUse, "stop that process, or choose another folder"),
    (StoreUnwritable, "choose a folder that this user may write to"),
    (StoreDamaged, "put the file back from a copy, or choose another folder"),
    (DiskFull, StoreRefused.advice),
)
ADVICE_BY_NUMBER = {
    errno.EADDRNOTAVAIL: "listen on an address of this machine",
    errno.EACCES: "choose a path or a port that this user may use (ports from 1024 on)",
    errno.EMFILE: "allow more open files (ulimit -n)",
}


def user_message(error: BaseException) -> str | None:
    """One line for the user; None for an error that only a bug can cause."""
    for kind, advice in ADVICE:
        if isinstance(error, kind):
            return f"{_what(error)}: {advice}"
    if isinstance(error, SettingRefused):
        return str(error)
    if isinstance(error, OSError):
        advice = ADVICE_BY_NUMBER.get(error.errno or 0, "")
        return f"{_what(error)}: {advice}" if advice else _what(error)
    return None


def first_error(error: BaseException) -> BaseException:
    """*error*, or the first error inside the groups that trio has wrapped it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _what(error: BaseException) -> str:
    if not isinstance(error, OSError):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"
