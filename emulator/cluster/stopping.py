"""What tells a process to stop: a signal, or the end of who started it."""

from __future__ import annotations

import os
import signal

import trio


async def stop_on_signal(
    stop: trio.Event, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """SIGTERM and SIGINT set *stop*."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            stop.set()


async def stop_with_parent(stop: trio.Event) -> None:
    """Standard input is a pipe nobody writes to: it ends when its other end dies."""
    stdin = trio.lowlevel.FdStream(os.dup(0))
    async with stdin:
        async for _ in stdin:
            continue
    stop.set()
