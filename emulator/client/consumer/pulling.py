"""Pulling one queue: is it time, where from, and what is asked.

Every way out of here puts the request back into the line, or asks a broker, whose
answer will; only a dropped queue ends it.

Upstream: DefaultMQPushConsumerImpl.pullMessage, PullAPIWrapper.pullKernelImpl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.client.consumer.start_offset import find_start
from emulator.client.errors import ClientError
from emulator.net.errors import RemoteError
from emulator.releases import FIVE
from protocol.catalog import PULL_MESSAGE
from protocol.names import MASTER_ID
from protocol.pull_flags import pull_flag
from protocol.requests.pulling import PullMessageRequest

if TYPE_CHECKING:
    from emulator.client.consumer.flow_control import FlowControl
    from emulator.client.consumer.member import Member
    from emulator.client.consumer.pull_answers import PullAnswers
    from emulator.client.consumer.pull_request import PullRequest
    from protocol.queues import MessageQueue
    from protocol.subscription import SubscriptionData


class Pulling:
    """The pulls of one consumer."""

    def __init__(self, member: Member, flow: FlowControl, answers: PullAnswers) -> None:
        self._member = member
        self._flow = flow
        self._answers = answers

    async def pull(self, request: PullRequest) -> None:
        """Upstream's checks in upstream's order; then the pull, whose answer comes by itself."""
        if request.process_queue.dropped:
            return
        request.process_queue.last_pull_ms = self._member.now_ms()
        if (delay_ms := self._delay_ms(request)) is not None:
            self._answers.again(request, delay_ms)
            return
        if not await self._is_located(request):
            self._answers.again(request, self._member.config.pull_error_delay_ms)
            return
        subscription = self._member.subscriptions.get(request.queue.topic)
        address, is_slave = await self._address_of(request.queue)
        if subscription is None or address is None:
            self._answers.again(request, self._member.config.pull_error_delay_ms)
            return
        self._ask(request, subscription, address, is_slave=is_slave)

    # Before the pull ------------------------------------------------------------------

    def _delay_ms(self, request: PullRequest) -> int | None:
        """How long this queue must wait before it may be pulled; None: not at all."""
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
        """Orderly, with the lock in hand: the last owner may have moved on, so ask again."""
        if request.is_located or not self._member.config.orderly:
            return True
        try:
            request.next_offset = await find_start(self._member, request.queue)
        except (RemoteError, ClientError) as error:
            self._answers.note_failed(request, str(error))
            return False
        request.is_located = True
        return True

    async def _address_of(self, queue: MessageQueue) -> tuple[str | None, bool]:
        """Where the last answer said, or the master; the route is asked for if nobody is known."""
        brokers = self._member.instance.brokers
        wanted = self._answers.suggested.get(queue, MASTER_ID)
        found = brokers.to_subscribe(queue.broker_name, wanted, only_this=False)
        if found is None:
            try:
                await self._member.instance.routes.refresh(queue.topic)
            except ClientError:
                return None, False
            found = brokers.to_subscribe(queue.broker_name, wanted, only_this=False)
        return found or (None, False)

    def _ask(
        self,
        request: PullRequest,
        subscription: SubscriptionData,
        address: str,
        *,
        is_slave: bool,
    ) -> None:
        member, config, queue = self._member, self._member.config, request.queue
        commit = 0
        if not config.is_broadcasting:
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
            max_msg_bytes=config.pull_bytes_max if member.release >= FIVE else None,
        )
        member.instance.remoting.invoke_async(
            address,
            PULL_MESSAGE,
            header,
            b"",
            timeout_ms=config.pull_timeout_ms,
            on_done=lambda reply: self._answers.heard(request, subscription, reply),
        )
