"""Each Python process started with this folder on its path lists the files it visits.

A file is visited when one of its functions is called.  Imports do not count, and calls below the
functions that ``VISITS_LEAVE_OUT`` names do not count.  Each process, also each forked one,
writes a file into the folder ``VISITS_TO``: its command line, then each file below
``VISITS_ROOT`` at its first visit.  So a killed process leaves its list, too.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType

ROOT = os.environ["VISITS_ROOT"] + os.sep
FOLDER = Path(os.environ["VISITS_TO"])
LEFT_OUT = os.environ["VISITS_LEAVE_OUT"].split()

FOUND: dict[
    str, str | None
] = {}  # from the file of a code object to its path below ROOT; None if it is outside
VISITED: set[str] = set()


def place_of(file: str) -> str | None:
    real = os.path.realpath(file)
    is_ours = real.startswith(ROOT) and real.endswith(".py") and "/.venv/" not in real
    return real[len(ROOT) :] if is_ours and real != __file__ else None


def is_left_out(frame: FrameType | None) -> bool:
    """Whether *frame* is called by the import of a module, or below a function of LEFT_OUT."""
    while frame is not None:
        name = frame.f_code.co_name
        if name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        if name in LEFT_OUT:
            return True
        frame = frame.f_back
    return False


def on_event(frame: FrameType, event: str, _argument: object) -> None:
    if event != "call":
        return
    file = frame.f_code.co_filename
    if file in VISITED:
        return
    if file not in FOUND:
        FOUND[file] = place_of(file)
    if (place := FOUND[file]) is None:
        VISITED.add(file)
    elif frame.f_code.co_flags & 1 and not is_left_out(frame):  # not a class body
        VISITED.add(file)
        write(place)


def write(line: str) -> None:
    with (FOLDER / str(os.getpid())).open("a") as file:
        file.write(line + "\n")


def begin() -> None:
    VISITED.clear()
    write(f"{time.monotonic_ns()} {os.getppid()} " + " ".join(sys.orig_argv))


begin()
os.register_at_fork(after_in_child=begin)
threading.setprofile(on_event)
sys.setprofile(on_event)
