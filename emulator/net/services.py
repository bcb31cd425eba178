"""A service is a short loop in somebody's nursery."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NoReturn

import trio


async def every(interval_ms: int, action: Callable[[], object], *, first_ms: int) -> NoReturn:
    """Run *action* at a fixed rate, the first time after *first_ms*."""
    due_s = trio.current_time() + first_ms / 1000
    while True:
        await trio.sleep_until(due_s)
        action()
        due_s += interval_ms / 1000


async def every_waiting(
    interval_ms: int, action: Callable[[], Awaitable[object]], *, first_ms: int
) -> NoReturn:
    """The same for an action that may wait; late when it is slow, as one thread would be."""
    due_s = trio.current_time() + first_ms / 1000
    while True:
        await trio.sleep_until(due_s)
        await action()
        due_s += interval_ms / 1000
