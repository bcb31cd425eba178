"""Stress tests of the limits at full size: hostile frames, kills, slow peers, large tables.

A theme is a module here with a ``NAME`` and a ``run()`` that returns rows.  Each theme runs in
its own process and starts its own clusters, on loopback.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One limit: the action, the requirement, the result, and whether it met the requirement."""

    what: str
    aim: str
    found: str
    reached: bool | None = None  # None: no requirement, or a reader judges it
