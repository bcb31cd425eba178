"""The limits, at full size: what a cluster survives when it is hurt on purpose.

A theme is a module here with a ``NAME`` and a ``run()`` that gives rows; each runs in a process
of its own and starts clusters of its own, on loopback.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One limit: what was done, what must hold, what was found, and whether it held."""

    what: str
    aim: str
    found: str
    reached: bool | None = None  # None: no aim, or to be judged by a reader
