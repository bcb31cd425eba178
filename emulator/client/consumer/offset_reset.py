"""A group is sent to other offsets: stop, forget what is cached, wait, move, go on.

The wait is for listeners that still run; what they acknowledge is of dropped queues and
moves nothing.  Upstream: MQClientInstance.resetOffset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from emulator.facts import Queue, QueuesReleased

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from emulator.client.consumer.member import Member
    from emulator.client.consumer.releasing import Releasing
    from protocol.queues import MessageQueue

WAIT_S = 10


class OffsetReset:
    """*resume* ends the pause and rebalances, which brings the queues back."""

    def __init__(
        self, member: Member, releasing: Releasing, resume: Callable[[], Awaitable[object]]
    ) -> None:
        self._member = member
        self._releasing = releasing
        self._resume = resume

    async def carry_out(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        self._member.is_paused = True
        for queue, process_queue in self._member.held.items():
            if queue.topic == topic and queue in offsets:
                process_queue.dropped = True
                process_queue.clear()
        await trio.sleep(WAIT_S)
        for queue, process_queue in sorted(self._member.held.items()):
            if queue.topic == topic and queue in offsets:
                self._member.offsets.table.update(queue, offsets[queue])
                await self._releasing.release(queue, process_queue)
                self._member.held.pop(queue, None)
                self._note_released(queue)
        await self._resume()

    def _note_released(self, queue: MessageQueue) -> None:
        name = Queue(queue.topic, queue.broker_name, queue.queue_id)
        self._member.note(QueuesReleased(self._member.group, (name,)))
