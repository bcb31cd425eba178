"""What a pull's answer means for its queue.

An answer without messages costs no delay, for the broker has already waited; an error
costs a second; an offset the broker does not have costs the queue, which comes back at
the offset the broker named.

Upstream: the PullCallback of DefaultMQPushConsumerImpl.pullMessage,
PullAPIWrapper.processPullResult.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from emulator.facts import OffsetRepaired, PullFailed, Queue
from emulator.net.errors import RemoteError
from emulator.releases import BUSY_PULL_IS_SHORT, FIVE, OFFSET_REPAIRED_AT_ONCE
from protocol.codes import ResponseCode
from protocol.fields import BadFields
from protocol.message import decode_messages
from protocol.properties import MAX_OFFSET, MIN_OFFSET
from protocol.requests.pulling import PullMessageReply
from protocol.subscription import wants_tag

if TYPE_CHECKING:
    from emulator.client.consumer.member import Member
    from emulator.client.consumer.process_queue import ProcessQueue
    from emulator.client.consumer.pull_request import PullRequest
    from emulator.client.consumer.rebalance import Rebalance
    from protocol.command import RemotingCommand
    from protocol.message import MessageExt
    from protocol.queues import MessageQueue
    from protocol.subscription import SubscriptionData

REPAIR_DELAY_MS = 10_000  # before 5.2.0: DefaultMQPushConsumerImpl.pullMessage

Submit: TypeAlias = Callable[["list[MessageExt]", "ProcessQueue", "MessageQueue", bool], object]
OnStatus: TypeAlias = Callable[["PullRequest", PullMessageReply, "list[MessageExt]"], None]


class PullAnswers:
    """The answers of one consumer's pulls.  *submit* gives messages to its consume service."""

    def __init__(self, member: Member, rebalance: Rebalance, submit: Submit) -> None:
        self.suggested: dict[MessageQueue, int] = {}  # the broker id to read from next
        self._member = member
        self._rebalance = rebalance
        self._submit = submit
        self._by_code: dict[int, OnStatus] = {
            ResponseCode.SUCCESS: self._found,
            ResponseCode.PULL_NOT_FOUND: self._nothing,
            ResponseCode.PULL_RETRY_IMMEDIATELY: self._nothing,
            ResponseCode.PULL_OFFSET_MOVED: self._offset_moved,
        }

    def heard(
        self,
        request: PullRequest,
        subscription: SubscriptionData,
        reply: RemotingCommand | RemoteError,
    ) -> None:
        """The answer came, or will not come."""
        if not self._member.is_running:
            return
        if isinstance(reply, RemoteError):
            self._failed(request, str(reply))
            return
        if (on_status := self._by_code.get(reply.code)) is None:
            self._refused(request, reply)
            return
        try:
            header = reply.decode(PullMessageReply)
            found = self._messages(request.queue, subscription, header, reply.body)
        except BadFields as error:
            self._failed(request, str(error))
            return
        self.suggested[request.queue] = header.suggest_which_broker_id
        on_status(request, header, found)

    def again(self, request: PullRequest, delay_ms: int = 0) -> None:
        """The request goes back into the line."""
        service = self._member.instance.pull_service
        if delay_ms > 0:
            service.pull_later(request, delay_ms)
        else:
            service.pull_now(request)

    def note_failed(self, request: PullRequest, error: str) -> None:
        self._member.note(PullFailed(self._member.group, _as_fact(request.queue), error))

    # By status ------------------------------------------------------------------------

    def _found(
        self, request: PullRequest, header: PullMessageReply, found: list[MessageExt]
    ) -> None:
        request.next_offset = header.next_begin_offset
        if not found:
            self.again(request)
            return
        wake = request.process_queue.put(found)
        self._submit(found, request.process_queue, request.queue, wake)
        self.again(request, self._member.config.pull_interval_ms)

    def _nothing(
        self, request: PullRequest, header: PullMessageReply, _found: list[MessageExt]
    ) -> None:
        """Nothing new, or nothing wanted: the group has come this far without a message."""
        request.next_offset = header.next_begin_offset
        if request.process_queue.count == 0:
            self._member.offsets.table.raise_to(request.queue, request.next_offset)
        self.again(request)

    def _offset_moved(
        self, request: PullRequest, header: PullMessageReply, _found: list[MessageExt]
    ) -> None:
        """The broker does not have our offset: drop the queue, and begin where it says.

        Since 5.2.0 at once and with the offset frozen, so that acknowledgements still
        under way cannot move it back.
        """
        member, queue = self._member, request.queue
        corrected = header.next_begin_offset
        member.note(OffsetRepaired(member.group, _as_fact(queue), request.next_offset, corrected))
        request.next_offset = corrected
        request.process_queue.dropped = True
        if member.release >= OFFSET_REPAIRED_AT_ONCE:
            member.offsets.table.freeze(queue, corrected)
            member.beside(lambda: self._replace(queue, wake=True))
            return

        def repair() -> None:
            member.offsets.table.update(queue, corrected)
            member.beside(lambda: self._replace(queue, wake=False))

        member.later(REPAIR_DELAY_MS, repair)

    async def _replace(self, queue: MessageQueue, *, wake: bool) -> None:
        self._member.offsets.persist(queue)
        await self._rebalance.remove(queue)
        if wake:
            self._member.instance.rebalance_service.wake("offset repaired")

    # No status ------------------------------------------------------------------------

    def _refused(self, request: PullRequest, reply: RemotingCommand) -> None:
        text = f"code {reply.code}: {reply.remark}"
        is_busy = reply.code == ResponseCode.FLOW_CONTROL
        if is_busy and BUSY_PULL_IS_SHORT.reached(self._member.release):
            self.note_failed(request, text)
            self.again(request, self._member.config.pull_busy_delay_ms)
        else:
            self._failed(request, text)

    def _failed(self, request: PullRequest, error: str) -> None:
        self.note_failed(request, error)
        self.again(request, self._member.config.pull_error_delay_ms)

    def _messages(
        self,
        queue: MessageQueue,
        subscription: SubscriptionData,
        header: PullMessageReply,
        body: bytes,
    ) -> list[MessageExt]:
        """The broker compared hash codes; here the tags themselves are compared."""
        found = []
        low, high = str(header.min_offset), str(header.max_offset)
        modern = self._member.release >= FIVE
        for message in decode_messages(
            body, queue.broker_name, magic_matters=modern, clears_compressed=modern
        ):
            if wants_tag(subscription, message.tags):
                message.properties[MIN_OFFSET] = low
                message.properties[MAX_OFFSET] = high
                found.append(message)
        return found


def _as_fact(queue: MessageQueue) -> Queue:
    return Queue(queue.topic, queue.broker_name, queue.queue_id)
