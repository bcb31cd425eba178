"""What goes round in the PullMessageService for each held queue: where its next pull begins."""

from __future__ import annotations

import msgspec

from emulator.client.consumer.process_queue import ProcessQueue
from protocol.queues import MessageQueue


class PullRequest(msgspec.Struct, eq=False):
    """One for each held queue; compared by identity.  Upstream: PullRequest."""

    group: str
    queue: MessageQueue
    process_queue: ProcessQueue
    next_offset: int
    is_located: bool = False  # orderly: the start was asked for again, with the lock in hand
