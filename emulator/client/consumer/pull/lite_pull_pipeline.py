"""The parts of one lite pull consumer, connected: its queues, its pulls, its offsets.

    rebalance or assign ─► assigned queues ─► pull tasks ─► batches ─► poll
                                  ▲                                      │
                                  └── consume offset ◄───────────────┘ ─► commit ─► offsets

For applications that assign queues, ``TopicQueueWatch`` queries a NameServer every 30 seconds for
changes of a topic's queues.

Upstream: DefaultLitePullConsumerImpl, fetchTopicMessageQueuesAndCompare.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from rocketmq_emulator.client.consumer.group.member import (
    check_misuses,
    subscription_of,
    subscription_to,
)
from rocketmq_emulator.client.consumer.group.process_queue import NOTHING_CACHED, as_fact
from rocketmq_emulator.client.consumer.group.pull_kernel import PullKernel
from rocketmq_emulator.client.consumer.group.rebalance import Rebalance
from rocketmq_emulator.client.consumer.pull.active_membership import (
    PulledOwnership,
    PulledQueue,
    RegisteredPullConsumer,
    call_on_queues,
)
from rocketmq_emulator.client.consumer.pull.pull_tasks import (
    AssignedQueues,
    PulledBatches,
    PullTasks,
)
from rocketmq_emulator.client.instance.plain_functions import callback_raised
from rocketmq_emulator.client.instance.services import Periodic, run_schedule
from rocketmq_emulator.client.settings.arguments import (
    check_is_queue,
    check_plain_function,
    check_subscribed,
    check_subscriptions,
    check_whole,
    queues_of,
)
from rocketmq_emulator.errors.call_errors import ClientError, ClientMisuse
from rocketmq_emulator.facts import MessagePolled, SeekRequested
from rocketmq_emulator.protocol.messages.subscription import SUB_ALL, TAG, is_tag_type
from rocketmq_emulator.settings.quirks import class_for
from rocketmq_emulator.settings.releases import (
    COMMIT_IS_IN_MEMORY,
    COMMITTED_IS_IN_MEMORY,
    LITE_POLL_TRACED,
    LITE_PULL_SHOWS_QUEUES,
    SEEK_CANCELS_PULL,
)

if TYPE_CHECKING:
    from rocketmq_emulator.client.consumer.group.allocation import Strategy
    from rocketmq_emulator.client.consumer.group.member import (
        Expression,
        LitePullMember,
        Member,
        QueuesChanged,
    )
    from rocketmq_emulator.client.consumer.group.process_queue import ProcessQueue
    from rocketmq_emulator.client.consumer.pull.pull_tasks import PulledBatch
    from rocketmq_emulator.protocol.messages.message import MessageExt
    from rocketmq_emulator.protocol.messages.subscription import SubscriptionData
    from rocketmq_emulator.protocol.queues import MessageQueue


class SubscriptionType(Enum):
    """How the consumer gets queues.  Upstream: SubscriptionType."""

    NONE = "not yet known"
    SUBSCRIBE = "its share of what it subscribes"
    ASSIGN = "what the application chose"


class LitePullPipeline:
    """One running lite pull consumer; applications use it through ``LitePullConsumer``."""

    def __init__(
        self, member: LitePullMember, strategy: Strategy, on_queues: QueuesChanged | None
    ) -> None:
        self.member = member
        self.assigned = AssignedQueues(self._process_queue_of)
        self.watch = TopicQueueWatch(member)
        self._mode = SubscriptionType.NONE
        self._assign_expressions: dict[str, str] = {}
        self._on_queues = on_queues
        self._batches = PulledBatches()
        kernel = PullKernel(member, member.config.broker_id)
        self._tasks = class_for(PullTasks, "consumer", member.config.quirks)(
            member, self.assigned, self._batches, kernel, self._subscription_to
        )
        self._rebalance = Rebalance(
            member, strategy, PulledOwnership(member), self._queues_changed
        )
        self.membership = RegisteredPullConsumer(member, self._rebalance, self)
        self._auto_commit_ms = 0  # when the next automatic commit is due

    def begin_with(
        self, subscriptions: Mapping[str, Expression], assign_expressions: Mapping[str, str]
    ) -> None:
        """Set the subscriptions and expressions given before the start.

        Raises ``BadSubscription``.
        """
        now_ms = self.member.now_ms()
        for topic, wanted in subscriptions.items():
            self._set_mode(SubscriptionType.SUBSCRIBE)
            self.member.subscriptions[topic] = subscription_of(topic, wanted, now_ms)
        for topic, tags in assign_expressions.items():
            self._set_mode(SubscriptionType.ASSIGN)
            subscription_to(topic, tags, TAG, 0)
            self._assign_expressions[topic] = tags

    async def start(self) -> None:
        """Find routes and have brokers check expressions.  Raises ``GroupCallRefused``."""
        member, config = self.member, self.member.config
        every = Periodic(
            config.topic_check_first_ms, config.topic_check_interval_ms, self.watch.compare
        )
        member.nursery.start_soon(run_schedule, [every], member.instance.clock.new_alarm())
        member.is_running = True
        await self._refresh_routes()
        for subscription in list(member.subscriptions.values()):
            if not is_tag_type(subscription.expression_type):
                await member.calls.check_client(subscription)

    # As a PullConsumerView ------------------------------------------------------------

    @property
    def rebalances(self) -> bool:
        """Always True; assigned queues have no subscription, so a pass does not change them."""
        return True

    def heartbeat_subscriptions(self) -> Collection[SubscriptionData]:
        """All subscriptions."""
        return self.member.subscriptions.values()

    def queues_to_persist(self) -> Collection[MessageQueue]:
        """The assigned queues, or the held ones."""
        if self._mode is SubscriptionType.ASSIGN:
            return self.assigned.queues
        return self.member.process_queue_table.keys()

    def reported_process_queues(self) -> dict[MessageQueue, ProcessQueue]:
        """Its queues, if the release reports them."""
        if self.member.release < LITE_PULL_SHOWS_QUEUES:
            return {}
        return self.assigned.process_queues()

    def reported_offsets(self, topic: str) -> dict[MessageQueue, int]:
        """Always empty: upstream does not report offsets of lite pull consumers."""
        del topic
        return {}

    # Which queues ---------------------------------------------------------------------

    async def subscribe(
        self, topic: str, wanted: Expression, on_queues: QueuesChanged | None
    ) -> None:
        """Add a subscription; as upstream, send heartbeats before refreshing the route."""
        check_subscriptions({topic: wanted})
        member = self.member
        subscription = subscription_of(topic, wanted, member.now_ms())
        check_misuses(member, [subscription])
        self._set_mode(SubscriptionType.SUBSCRIBE)
        member.subscriptions[topic] = subscription
        member.subscription_changed = True
        if on_queues is not None:
            self._on_queues = on_queues
        await member.instance.heartbeats.send_round()
        await self._refresh_routes()

    def unsubscribe(self, topic: str) -> None:
        """Cancel the pull tasks of *topic*; the next rebalance pass releases its queues."""
        if self.member.subscriptions.pop(topic, None) is not None:
            self.member.subscription_changed = True
        self._tasks.update((), topic)
        self.assigned.forget(topic)

    def assign(self, queues: Collection[MessageQueue]) -> None:
        """Pull exactly *queues*; raises ``ClientMisuse`` for none, or with subscriptions."""
        wanted = set(queues_of(queues))
        if not wanted:
            raise ClientMisuse("assign takes at least one queue")
        self._set_mode(SubscriptionType.ASSIGN)
        self.assigned.update(wanted)
        self._tasks.update(wanted)

    def pause(self, queues: Collection[MessageQueue], *, paused: bool) -> None:
        """Pause or resume *queues*; queues that it does not have are ignored."""
        for queue in queues_of(queues):
            if (state := self.assigned.state(queue)) is not None:
                state.is_paused = paused

    # Messages and offsets -------------------------------------------------------------

    async def poll(self, timeout_ms: int) -> list[MessageExt]:
        """Commit if that is due, then wait for one batch; [] after *timeout_ms*."""
        if self.member.config.auto_commit:
            self._maybe_auto_commit()
        batch = await self._batches.wait_next(timeout_ms / 1000)
        return [] if batch is None else self._hand_out(batch)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at *offset*.  Raises ``Misuse`` and the errors of ``GroupCalls``."""
        check_is_queue(queue)
        check_whole("offset", offset)
        self._check_has(queue)
        first = await self.member.calls.min_offset(queue)
        end = await self.member.calls.max_offset(queue)
        if not first <= offset <= end:
            raise ClientMisuse(
                f"cannot seek {queue} to {offset}: it has the offsets {first} to {end}"
            )
        self._check_has(queue)  # it may have been released meanwhile
        state = self.assigned.state(queue)
        assert state is not None, "checked"
        state.process_queue.clear()
        self._batches.forget(queue)
        state.seek_offset = offset
        self.member.note(SeekRequested(self.member.group, as_fact(queue), offset))
        if self.member.release >= SEEK_CANCELS_PULL:
            self._tasks.restart(queue)

    def commit(
        self,
        wanted: Mapping[MessageQueue, int] | Collection[MessageQueue] | None,
        *,
        persist: bool,
    ) -> None:
        """Commit all polled messages, those of some queues, or given offsets."""
        offsets = self.member.offsets
        queues = self.assigned.queues if wanted is None else queues_of(wanted)
        for queue in queues:
            state = self.assigned.state(queue)
            handed_out = None if state is None else state.committable
            given = wanted[queue] if isinstance(wanted, Mapping) else handed_out
            if state is None or state.process_queue.dropped or given is None:
                continue
            check_whole("offset", given)
            offsets.table.update(queue, given)
        is_old = self.member.release < COMMIT_IS_IN_MEMORY and self.member.is_broadcasting
        if persist or (wanted is None and is_old):
            offsets.persist_all(queues)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset in memory, or else in the store.  Raises the errors of ``GroupCalls``."""
        check_is_queue(queue)
        if self.member.release >= COMMITTED_IS_IN_MEMORY:
            known = self.member.offsets.table.get(queue)
            if known is not None:
                return known
        return await self.member.offsets.read(queue)

    # Inside ---------------------------------------------------------------------------

    def _set_mode(self, mode: SubscriptionType) -> None:
        if self._mode not in (SubscriptionType.NONE, mode):
            raise ClientMisuse("subscribe and assign are mutually exclusive")
        self._mode = mode

    def _check_has(self, queue: MessageQueue) -> None:
        if self.assigned.state(queue) is None:
            hint = ", it may be rebalancing" if self._mode is SubscriptionType.SUBSCRIBE else ""
            raise ClientMisuse(f"this consumer does not have {queue}{hint}")

    async def _refresh_routes(self) -> None:
        for topic in list(self.member.subscriptions):
            await self.member.instance.routes.refresh_quietly(topic)  # if not, the poll retries

    def _process_queue_of(self, queue: MessageQueue) -> ProcessQueue:
        held = self.member.process_queue_table.get(queue)
        return PulledQueue(self.member.now_ms()) if held is None else held

    def _subscription_to(self, topic: str) -> SubscriptionData | None:
        if self._mode is SubscriptionType.SUBSCRIBE:
            return self.member.subscriptions.get(topic)
        return subscription_to(topic, self._assign_expressions.get(topic, SUB_ALL), TAG, 0)

    async def _queues_changed(self, topic: str, mine: Collection[MessageQueue]) -> None:
        self.assigned.update(mine, topic)
        self._tasks.update(mine, topic)
        every = self._rebalance.queues.get(topic, frozenset())
        call_on_queues(self.member, self._on_queues, topic, every, mine)

    def _maybe_auto_commit(self) -> None:
        now_ms = self.member.now_ms()
        if now_ms >= self._auto_commit_ms:
            self.commit(None, persist=False)
            self._auto_commit_ms = now_ms + self.member.config.auto_commit_interval_ms

    def _hand_out(self, batch: PulledBatch) -> list[MessageExt]:
        consumed = batch.process_queue.remove(batch.messages, self.member.now_ms())
        if (state := self.assigned.state(batch.queue)) is not None:
            state.consume_offset = None if consumed == NOTHING_CACHED else consumed
        if self.member.instance.wants(MessagePolled):
            for message in batch.messages:
                self.member.note(
                    MessagePolled(
                        group=self.member.group,
                        queue=as_fact(batch.queue),
                        offset=message.queue_offset,
                        uniq_key=message.msg_id,
                    )
                )
        if self.member.traces is not None and self.member.release >= LITE_POLL_TRACED:
            self.member.traces.polled(batch.messages)
        return batch.messages


# Listeners for the queues of topics ---------------------------------------------------


TopicQueuesChanged: TypeAlias = Callable[[str, "list[MessageQueue]"], object]


class TopicQueueWatch:
    """Calls one consumer's listeners when the queues of their topics change; one per topic."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._calls = member.calls
        self._listeners: dict[str, TopicQueuesChanged] = {}
        self._queues: dict[str, list[MessageQueue]] = {}

    async def listen(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Call ``listener(topic, queues)`` when the queues of *topic* change.

        Raises the errors of ``GroupCalls.queues_of``; even then the listener stays registered.
        """
        check_subscribed(topic)
        check_plain_function("listener", listener, takes="topic, queues")
        self._listeners[topic] = listener
        self._queues[topic] = await self._calls.queues_of(topic)

    async def compare(self) -> None:
        """Query the queues of each topic; the first failing query ends the round."""
        for topic, listener in list(self._listeners.items()):
            try:
                queues = await self._calls.queues_of(topic)
            except ClientError:
                return
            if queues != self._queues.get(topic):
                self._queues[topic] = queues
                self._call(listener, topic, queues)

    def _call(self, listener: TopicQueuesChanged, topic: str, queues: list[MessageQueue]) -> None:
        try:
            listener(topic, queues)
        except Exception as error:  # noqa: BLE001  # other listeners are still called
            self._member.note(callback_raised(self._member.group, "on_topic_queues", error))
