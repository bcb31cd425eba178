"""How long ago this very process was started, before any of its code was loaded.

Whoever waits for a program waits from the moment they start it, so that is what ``ready_s``
counts from.  A process that is replaced (``execve``) keeps its beginning.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_LOADED_S = time.monotonic()
_START_FIELD = 19  # starttime, counted from behind the name of the program: proc(5)


def process_age_s() -> float:
    """Seconds, exact to a hundredth; where no ``/proc`` tells, since this module was loaded."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began_s = int(fields[_START_FIELD]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began_s)
    except (OSError, ValueError, IndexError, AttributeError):
        return time.monotonic() - _LOADED_S
