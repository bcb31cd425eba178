"""A process queue whose listener can be waited for, before the queue goes to somebody else."""

from __future__ import annotations

import trio

from emulator.client.consumer.process_queue import ProcessQueue


class OrderlyQueue(ProcessQueue):
    """``listening`` is held while the listener is called.  Upstream: ProcessQueue.consumeLock."""

    def __init__(self, now_ms: int, *, locked: bool = False) -> None:
        super().__init__(now_ms, locked=locked)
        self.listening = trio.Lock()

    async def wait_quiet(self, patience_ms: int) -> bool:
        """Whether the listener let go in time; then nobody else can begin until ``release``."""
        with trio.move_on_after(patience_ms / 1000):
            await self.listening.acquire()
            return True
        return False
