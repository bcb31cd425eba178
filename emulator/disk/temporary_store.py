"""A folder for the stores of one cluster, removed at its end, also after ``kill -9``.

A cluster of processes without a store of the user's keeps messages here, so that they survive
the ``kill`` of their broker, as those of a real one do.  Its owner holds a lock on a file in it;
the next cluster removes the folders that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rocketmq_emulator.disk.files import StoreUnwritable

PREFIX = "rmqemu-store-"
_OWNED = "owned"


@contextlib.contextmanager
def temporary_store() -> Iterator[Path]:
    """A new empty folder, until the end of the block.  Raises ``StoreUnwritable``."""
    _remove_unowned(Path(tempfile.gettempdir()))
    try:
        folder, owned = _new_folder()
    except OSError as error:
        raise StoreUnwritable(f"no folder for a temporary store: {error}") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(owned)


def _new_folder() -> tuple[Path, int]:
    """A folder and the descriptor of its lock, which has it before it has its name."""
    begun = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
    owned = os.open(begun / _OWNED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(owned, fcntl.LOCK_EX)
    return begun.rename(begun.with_name(begun.name.removeprefix("."))), owned


def _remove_unowned(parent: Path) -> None:
    """Remove the folders of owners that were killed; other users' stay."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # owned, just made, or another user's
            owned = os.open(folder / _OWNED, os.O_RDWR)
            try:
                fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(owned)
