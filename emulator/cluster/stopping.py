"""What tells a process to stop: a signal, or the end of the parent.

A file of its own, because it needs trio, which ``up`` does not load before its nodes run.
"""

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
    """The end of standard input sets *stop*: nobody writes there, so the parent has died."""
    stdin = trio.lowlevel.FdStream(os.dup(0))
    async with stdin:
        async for _ in stdin:
            continue
    stop.set()
