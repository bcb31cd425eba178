"""Pulling one queue: when, from which broker, the request, and the handling of its reply.

Every path puts the pull request back into the PullMessageService, or invokes a broker, and the
handling of the reply puts it back; only a dropped queue ends a pull request.

After a reply without messages the next pull follows at once, because the broker has already
held the request; after an error it follows after a second.  If the broker does not have the
offset, the queue is released and claimed again at the offset that the broker suggests.

Upstream: DefaultMQPushConsumerImpl.pullMessage and its PullCallback.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeAlias

from rocketmq_emulator.client.consumer.group.process_queue import as_fact
from rocketmq_emulator.client.consumer.group.pull_kernel import PullKernel
from rocketmq_emulator.errors.call_errors import ClientError, RemoteError
from rocketmq_emulator.facts import OffsetRepaired, PullFailed
from rocketmq_emulator.protocol.catalog import PULL_MESSAGE
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import pull_flag
from rocketmq_emulator.protocol.requests.pulling import PullMessageRequest
from rocketmq_emulator.settings.releases import (
    BUSY_PULL_IS_SHORT,
    OFFSET_REPAIRED_AT_ONCE,
    PULL_LIMITS_BYTES,
)

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.member import PushMember
    from rocketmq_emulator.client.consumer.group.process_queue import (
        FlowControl,
        ProcessQueue,
        PullRequest,
    )
    from rocketmq_emulator.client.consumer.group.rebalance import Rebalance
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
    from rocketmq_emulator.protocol.queues import MessageQueue
    from rocketmq_emulator.protocol.requests.pulling import PullMessageReply

REPAIR_DELAY_MS = 10_000  # before 5.2.0: DefaultMQPushConsumerImpl.pullMessage

Submit: TypeAlias = Callable[["list[MessageExt]", "ProcessQueue", "MessageQueue", bool], object]
OnStatus: TypeAlias = Callable[["PullRequest", "PullMessageReply", "list[MessageExt]"], None]


class Pulling:
    """Pulls the queues of one consumer.  *submit* gives messages to its consume service."""

    def __init__(
        self, member: PushMember, flow: FlowControl, rebalance: Rebalance, submit: Submit
    ) -> None:
        self._member = member
        self._flow = flow
        self._rebalance = rebalance
        self._submit = submit
        self._kernel = PullKernel(member)
        self._by_code: dict[int, OnStatus] = {
            ResponseCode.SUCCESS: self._found,
            ResponseCode.PULL_NOT_FOUND: self._nothing,
            ResponseCode.PULL_RETRY_IMMEDIATELY: self._nothing,
            ResponseCode.PULL_OFFSET_MOVED: self._offset_moved,
        }

    async def pull(self, request: PullRequest) -> None:
        """Do upstream's checks in upstream's order, then send the pull without waiting for it."""
        if request.process_queue.dropped:
            return
        request.process_queue.last_pull_ms = self._member.now_ms()
        if (delay_ms := self._delay_ms(request)) is not None:
            self._pull_again(request, delay_ms)
            return
        if not await self._is_located(request):
            self._pull_again(request, self._member.config.pull_error_delay_ms)
            return
        subscription = self._member.subscriptions.get(request.queue.topic)
        address, is_slave = await self._kernel.address_of(request.queue)
        if subscription is None or address is None:
            self._pull_again(request, self._member.config.pull_error_delay_ms)
            return
        self._invoke(request, subscription, address, is_slave=is_slave)

    # Before the pull ------------------------------------------------------------------

    def _delay_ms(self, request: PullRequest) -> int | None:
        """The delay before this queue may be pulled; None: no delay."""
        member, config = self._member, self._member.config
        if not member.is_running:
            return config.pull_error_delay_ms
        if member.is_paused:
            return config.pull_paused_delay_ms
        if self._flow.is_full(request.process_queue):
            return config.pull_full_delay_ms
        if config.orderly and not request.process_queue.locked:
            return config.pull_error_delay_ms
        return None

    async def _is_located(self, request: PullRequest) -> bool:
        """Whether ``next_offset`` is known; queries it again before the first orderly pull.

        At that time the lock is held, and the last owner may have committed since the claim.
        In 4.x the query may return UNKNOWN_START, which is pulled from: no check before 5.0.0.
        The broker corrects it to the offset of its first message.
        """
        if request.is_located or not self._member.config.orderly:
            return True
        try:
            request.next_offset = await self._member.starts.find(request.queue)
        except (RemoteError, ClientError) as error:
            self._note_failed(request, str(error))
            return False
        request.is_located = True
        return True

    def _invoke(
        self,
        request: PullRequest,
        subscription: SubscriptionData,
        address: str,
        *,
        is_slave: bool,
    ) -> None:
        member, config, queue = self._member, self._member.config, request.queue
        commit = 0
        if not member.is_broadcasting:
            commit = member.offsets.table.get(queue) or 0
        with_text = config.post_subscription_when_pull
        header = PullMessageRequest(
            consumer_group=member.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=request.next_offset,
            max_msg_nums=config.pull_batch_max,
            sys_flag=pull_flag(
                commit_offset=commit > 0 and not is_slave, suspend=True, subscription=with_text
            ),
            commit_offset=commit,
            suspend_timeout_millis=config.pull_hold_ms_max,
            sub_version=subscription.sub_version,
            subscription=subscription.sub_string if with_text else None,
            expression_type=subscription.expression_type,
            max_msg_bytes=config.pull_bytes_max if member.release >= PULL_LIMITS_BYTES else None,
        )
        remoting = member.instance.remoting
        with remoting.batch() if member.instance.pull_service.is_last else nullcontext():
            remoting.invoke_async(
                address,
                PULL_MESSAGE,
                header,
                b"",
                timeout_ms=config.pull_timeout_ms,
                on_done=lambda reply: self._answered(request, subscription, reply),
            )

    # The reply ------------------------------------------------------------------------

    def _answered(
        self,
        request: PullRequest,
        subscription: SubscriptionData,
        reply: RemotingCommand | RemoteError,
    ) -> None:
        """Handle a reply, or the error of a call without one."""
        if not self._member.is_running:
            return
        if isinstance(reply, RemoteError):
            self._failed(request, str(reply))
            return
        if (on_status := self._by_code.get(reply.code)) is None:
            self._refused(request, reply)
            return
        try:
            header, found = self._kernel.read(reply, request.queue, subscription)
        except BadFields as error:
            self._failed(request, str(error))
            return
        on_status(request, header, found)

    def _found(
        self, request: PullRequest, header: PullMessageReply, found: list[MessageExt]
    ) -> None:
        request.next_offset = header.next_begin_offset
        if not found:
            self._pull_again(request)
            return
        now_ms = self._member.now_ms()
        took_ms = now_ms - request.process_queue.last_pull_ms
        self._member.stats.pulled(request.queue.topic, len(found), took_ms, now_ms)
        wake = request.process_queue.put(found)
        self._submit(found, request.process_queue, request.queue, wake)
        self._pull_again(request, self._member.config.pull_interval_ms)

    def _nothing(
        self, request: PullRequest, header: PullMessageReply, _found: list[MessageExt]
    ) -> None:
        """Handle a reply without matching messages: pull next at the broker's offset."""
        request.next_offset = header.next_begin_offset
        if request.process_queue.count == 0:
            self._member.offsets.table.raise_to(request.queue, request.next_offset)
        self._pull_again(request)

    def _offset_moved(
        self, request: PullRequest, header: PullMessageReply, _found: list[MessageExt]
    ) -> None:
        """Handle a reply that moves the offset: drop the queue, restart at the broker's offset.

        Since 5.2.0 this happens at once and with the offset frozen, so that later
        acknowledgements cannot move it back.
        """
        member, queue = self._member, request.queue
        corrected = header.next_begin_offset
        member.note(OffsetRepaired(member.group, as_fact(queue), request.next_offset, corrected))
        request.next_offset = corrected
        request.process_queue.dropped = True
        if member.release >= OFFSET_REPAIRED_AT_ONCE:
            member.offsets.table.freeze(queue, corrected)
            member.start_soon(lambda: self._replace(queue, wake=True))
            return

        def repair() -> None:
            member.offsets.table.update(queue, corrected)
            member.start_soon(lambda: self._replace(queue, wake=False))

        member.call_later(REPAIR_DELAY_MS, repair)

    async def _replace(self, queue: MessageQueue, *, wake: bool) -> None:
        self._member.offsets.persist(queue)
        await self._rebalance.replace(queue)
        if wake:
            self._member.instance.rebalance_service.wake("offset repaired")

    def _refused(self, request: PullRequest, reply: RemotingCommand) -> None:
        text = f"code {reply.code}: {reply.remark}"
        is_busy = reply.code == ResponseCode.FLOW_CONTROL
        if is_busy and BUSY_PULL_IS_SHORT.reached(self._member.release):
            self._note_failed(request, text)
            self._pull_again(request, self._member.config.pull_busy_delay_ms)
        else:
            self._failed(request, text)

    def _failed(self, request: PullRequest, error: str) -> None:
        self._note_failed(request, error)
        self._pull_again(request, self._member.config.pull_error_delay_ms)

    def _note_failed(self, request: PullRequest, error: str) -> None:
        self._member.note(PullFailed(self._member.group, as_fact(request.queue), error))

    def _pull_again(self, request: PullRequest, delay_ms: int = 0) -> None:
        """Put the request back into the PullMessageService."""
        service = self._member.instance.pull_service
        if delay_ms > 0:
            service.pull_later(request, delay_ms)
        else:
            service.pull_now(request)
