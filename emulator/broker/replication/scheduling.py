"""The time and the timers that replication gets from its shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketmq_emulator.net.timers import Timer


class Scheduling(NamedTuple):
    """``now_ms()`` is the wall time; ``at(due_ms, action)`` runs *action* at a wall time."""

    now_ms: Callable[[], int]
    at: Callable[[int, Callable[[], object]], Timer]
