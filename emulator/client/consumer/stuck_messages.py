"""Messages whose listener has not come back for a quarter of an hour are sent back.

Only the lowest of a queue is looked at, again and again, at most 16 times: it is the one
that holds the offset.  The listener is not interrupted; what it says later is not heard.

Upstream: ProcessQueue.cleanExpiredMsg.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import trio

from protocol.properties import CONSUME_START_TIME

if TYPE_CHECKING:
    from emulator.client.consumer.member import Member
    from emulator.client.consumer.process_queue import ProcessQueue
    from emulator.client.consumer.send_back import SendBack
    from protocol.message import MessageExt
    from protocol.queues import MessageQueue

IN_ONE_ROUND_MAX = 16
DELAY_LEVEL = 3
MS_DIGITS_MAX = 19


class StuckMessages:
    """The rounds of one concurrent consumer."""

    def __init__(self, member: Member, send_back: SendBack) -> None:
        self._member = member
        self._send_back = send_back

    async def run(self) -> NoReturn:
        while True:
            await trio.sleep(self._member.config.consume_timeout_ms / 1000)
            await self.run_round()

    async def run_round(self) -> None:
        for queue, process_queue in sorted(self._member.held.items()):
            await self._clean(queue, process_queue)

    async def _clean(self, queue: MessageQueue, process_queue: ProcessQueue) -> None:
        for _ in range(min(process_queue.count, IN_ONE_ROUND_MAX)):
            message = process_queue.first()
            if message is None or not self._is_stuck(message):
                return
            if not await self._send_back.send_back(message, queue, DELAY_LEVEL):
                continue
            if process_queue.first() is message:
                process_queue.remove([message], self._member.now_ms())

    def _is_stuck(self, message: MessageExt) -> bool:
        began = message.properties.get(CONSUME_START_TIME, "")
        if not (began.isascii() and began.isdigit() and len(began) < MS_DIGITS_MAX):
            return False  # the first to say so may have been its sender
        return self._member.now_ms() - int(began) > self._member.config.consume_timeout_ms
