"""What a disk that has not taken something means: no room, too many open files, or else."""

from __future__ import annotations

import errno

from emulator.disk.port import DiskFull
from emulator.facts import Fact, OpenFilesRanOut, StoreRefused

_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})


def is_out_of_files(error: BaseException) -> bool:
    """Whether the process, or the machine, has as many files open as it may have."""
    return isinstance(error, OSError) and error.errno in _OUT_OF_FILES


def refusal(error: Exception, what: str = "") -> Fact:
    """The fact that *what* was not written, because of *error*."""
    if is_out_of_files(error):
        return OpenFilesRanOut(what or str(getattr(error, "filename", None) or "the log"))
    return StoreRefused(f"{what}: {error}" if what else str(error))


def reason(error: Exception) -> str:
    """In a remark, for clients: "the broker's …"."""
    if isinstance(error, DiskFull):
        return "the broker's disk is full"
    if is_out_of_files(error):
        return "the broker has too many open files (ulimit -n)"
    return f"the broker's disk cannot be written: {error}"
