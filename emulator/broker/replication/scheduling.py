"""Time in replication: the clock and the timers of its shell, and the bytes of each second."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketmq_emulator.net.timers import Timer


class Scheduling(NamedTuple):
    """``now_ms()`` is the wall time; ``at(due_ms, action)`` runs *action* at a wall time."""

    now_ms: Callable[[], int]
    at: Callable[[int, Callable[[], object]], Timer]


class FlowMonitor:
    """Counts the bytes of one stream in whole seconds, which are counted from *began_ms*.

    Upstream: FlowMonitor.
    """

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._second = self._byte_count = self._last_byte_count = 0

    def add(self, byte_count: int, now_ms: int) -> None:
        """Count bytes that were transferred now."""
        self._pass_to(now_ms)
        self._byte_count += byte_count

    def this_second(self, now_ms: int) -> int:
        """The number of bytes in the second that has begun last."""
        self._pass_to(now_ms)
        return self._byte_count

    def last_second(self, now_ms: int) -> int:
        """The number of bytes in the last whole second."""
        self._pass_to(now_ms)
        return self._last_byte_count

    def _pass_to(self, now_ms: int) -> None:
        second = (now_ms - self._began_ms) // 1_000
        if second != self._second:
            is_next = second == self._second + 1
            self._last_byte_count = self._byte_count if is_next else 0
            self._second, self._byte_count = second, 0
