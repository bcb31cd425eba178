"""The evidence of consumption: one fact a message, written when its listener has come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.facts import MessageConsumed, Queue
from emulator.journal import silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emulator.facts import Note
    from protocol.message import MessageExt
    from protocol.queues import MessageQueue


class Consumed:
    """Of one group; costs nothing where nobody keeps a journal."""

    def __init__(self, group: str, note: Note) -> None:
        self._group = group
        self._note = note
        self._is_wanted = note is not silent

    def note(self, queue: MessageQueue, messages: Sequence[MessageExt], acked: int) -> None:
        """The first *acked* of *messages* went well, the others did not."""
        if not self._is_wanted:
            return
        at = Queue(queue.topic, queue.broker_name, queue.queue_id)
        for index, message in enumerate(messages):
            self._note(
                MessageConsumed(
                    group=self._group,
                    topic=message.topic,
                    queue=at,
                    offset=message.queue_offset,
                    uniq_key=message.uniq_key or "",
                    reconsume_times=message.reconsume_times,
                    ok=index < acked,
                )
            )
