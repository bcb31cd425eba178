"""Sends to another broker what a slave that acts as the master would have to store.

The route of the message's topic gives the writable queues of masters; they are used in turn.  A
delayed message may go to any of them, a timer or half message to another broker name (since 5.3.0;
before, a turn that falls on the own name fails).  Routes are looked up at the first message of a
topic, at each one while it has no such queue, and again every 30 seconds.  Only SUCCESS counts: a
message that was stored there, but neither flushed nor copied in time, is sent again.

It does not send what POP needs, and reads nothing from other brokers.

Upstream: EscapeBridge, TopicRouteInfoManager, BrokerOuterAPI.sendMessageToSpecificBroker.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rocketmq_emulator.broker.store.escaping import Escape, half_again, of_delay_level, of_timer
from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.facts import MessageEscaped, MessageNotEscaped, Queue
from rocketmq_emulator.net.tasks import every_async
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import TopicRouteData
from rocketmq_emulator.protocol.codes import ResponseCode, response_name
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import is_writeable
from rocketmq_emulator.protocol.messages.names import AUTO_CREATE_TOPIC_KEY_TOPIC, MASTER_ID
from rocketmq_emulator.protocol.messages.properties import PGROUP, UNIQ_KEY, property_of
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.nameserver import GetRouteInfoRequest
from rocketmq_emulator.protocol.requests.sending import SendMessageRequestV2
from rocketmq_emulator.settings.releases import ESCAPES_TO_OTHER_NAMES

if TYPE_CHECKING:
    from rocketmq_emulator.broker.state.broker import Broker
    from rocketmq_emulator.broker.store.appender import MessageToStore
    from rocketmq_emulator.broker.store.escaping import OnEscaped
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.net.tasks import TaskNursery
    from rocketmq_emulator.protocol.command import RemotingCommand

SEND_MS_MAX = 3_000  # EscapeBridge.SEND_TIMEOUT
LOOK_UP_MS_MAX = 3_000  # MixAll.GET_TOPIC_ROUTE_TIMEOUT
POLL_INTERVAL_MS = 30_000  # BrokerConfig.loadBalancePollNameServerInterval
DEFAULT_QUEUES = 8  # BrokerOuterAPI.buildSendMessageRequestHeaderV2
TOPICS_MAX = 10_000  # ours: further topics are looked up at each message
QUEUES_MAX = 100_000  # ours, of one topic: a route with more counts as damaged
MESSAGES_MAX = 50_000  # EscapeBridge.start: the queue of its executor; under way at once


class Targets:
    """The writable queues of one topic, used in turn from a random one on."""

    def __init__(self, queues: Sequence[MessageQueue], rng: random.Random) -> None:
        self.queues = queues
        self._turn = rng.randrange(1 << 31)

    def next_queue(self, avoided: str | None = None) -> MessageQueue:
        """The next queue; not one of the broker *avoided*, if there is another.

        Upstream: TopicPublishInfo.selectOneMessageQueue.
        """
        for _ in self.queues:
            queue = self._step()
            if queue.broker_name != avoided:
                return queue
        return self._step()

    def _step(self) -> MessageQueue:
        self._turn += 1
        return self.queues[self._turn % len(self.queues)]


class EscapeBridge:
    """Sends messages of *broker*; ``name_servers()`` are asked for routes."""

    def __init__(
        self,
        broker: Broker,
        client: RemotingClient,
        nursery: TaskNursery,
        *,
        name_servers: Callable[[], Sequence[str]],
        rng: random.Random,
    ) -> None:
        self._broker = broker
        self._client = client
        self._nursery = nursery
        self._name_servers = name_servers
        self._rng = rng
        config = broker.config
        self._group = f"InnerProducerGroup_{config.name}_{config.broker_id}"
        self._targets: dict[str, Targets] = {}
        self._masters: dict[str, str] = {}  # addresses by broker name
        self._under_way = 0
        self._failing: set[str] = set()  # services whose last message failed
        self._is_polling = False

    def connect(self) -> None:
        """Let the services of the broker send what they cannot store."""
        broker = self._broker
        broker.delays.escape = self._of("delay level", of_delay_level)
        broker.transactions.escape = self._of("transaction check", half_again)
        if broker.timers is not None:
            broker.timers.escape = self._of("timer", of_timer)

    def _of(self, service: str, convert: Callable[[MessageToStore], MessageToStore]) -> Escape:
        return partial(self._escape, service, convert)

    def _escape(
        self,
        service: str,
        convert: Callable[[MessageToStore], MessageToStore],
        message: MessageToStore,
        on_done: OnEscaped,
    ) -> None:
        self._under_way += 1

        def ended(reason: str, target: Queue | None) -> None:
            self._under_way -= 1
            self._note(service, sent, target, reason)
            with self._client.batch():
                on_done(reason, self._client.clock.now_ms())

        sent = convert(message)
        if self._under_way > MESSAGES_MAX:
            ended("too many messages are under way", None)
            return
        self._nursery.start_soon(self._send, service, sent, ended)

    async def _send(
        self,
        service: str,
        message: MessageToStore,
        ended: Callable[[str, Queue | None], object],
    ) -> None:
        targets = self._targets.get(message.topic)
        if targets is None or not targets.queues:
            targets = await self._wait_targets(message.topic)
        if targets is None or not targets.queues:
            ended(f"{message.topic} has no queue at another master", None)
            return
        queue = targets.next_queue(self._avoided(service))
        own_name, address = self._broker.config.name, self._masters.get(queue.broker_name)
        target = Queue(message.topic, queue.broker_name, queue.queue_id)
        if service != "delay level" and queue.broker_name == own_name:
            ended(f"the turn fell on the own broker name {own_name}", None)
            return
        if address is None:
            ended(f"{queue.broker_name} has no master", None)
            return
        ended(await self._wait_sent(address, message, queue.queue_id), target)

    def _avoided(self, service: str) -> str | None:
        """Upstream: asyncPutMessage excludes no broker, putMessageToRemoteBroker the own one."""
        excludes = self._broker.release >= ESCAPES_TO_OTHER_NAMES
        return self._broker.config.name if excludes and service != "delay level" else None

    async def _wait_sent(self, address: str, message: MessageToStore, queue_id: int) -> str:
        """Send it; returns why that failed, or an empty text."""
        header = SendMessageRequestV2(
            producer_group=property_of(message.properties, PGROUP) or self._group,
            topic=message.topic,
            default_topic=AUTO_CREATE_TOPIC_KEY_TOPIC,
            default_topic_queue_nums=DEFAULT_QUEUES,
            queue_id=queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_ms,
            flag=message.flag,
            properties=message.properties,
            reconsume_times=message.reconsume_times,
        )
        try:
            reply: RemotingCommand = await self._client.invoke(
                address, catalog.SEND_MESSAGE_V2, header, message.body, timeout_ms=SEND_MS_MAX
            )
        except RemoteError as error:
            return str(error)
        if reply.code == ResponseCode.SUCCESS:
            return ""
        name = response_name(reply.code, self._broker.release)
        return f"{address} answered {name}: {reply.remark or ''}"

    def _note(
        self, service: str, message: MessageToStore, target: Queue | None, reason: str
    ) -> None:
        """Note a success, or the first of consecutive failures."""
        key = property_of(message.properties, UNIQ_KEY) or ""
        queue = self._broker.queue(message.topic, message.queue_id)
        if not reason and target is not None:
            self._failing.discard(service)
            self._broker.note(MessageEscaped(queue, target.broker, target.queue_id, service, key))
        elif service not in self._failing:
            self._failing.add(service)
            self._broker.note(MessageNotEscaped(queue, service, reason, key))

    # Routes ---------------------------------------------------------------------------

    async def _wait_targets(self, topic: str) -> Targets | None:
        if not self._is_polling:
            self._is_polling = True
            self._nursery.start_soon(self._poll)
        await self._refresh(topic)
        return self._targets.get(topic)

    async def _poll(self) -> None:
        await every_async(POLL_INTERVAL_MS, self._refresh_all, first_ms=POLL_INTERVAL_MS)

    async def _refresh_all(self) -> None:
        for topic in list(self._targets):
            await self._refresh(topic)

    async def _refresh(self, topic: str) -> None:
        """Look the route up at the first NameServer that answers; an old one stays else."""
        for name_server in self._name_servers():
            try:
                reply = await self._client.invoke(
                    name_server,
                    catalog.GET_ROUTEINFO_BY_TOPIC,
                    GetRouteInfoRequest(topic=topic),
                    timeout_ms=LOOK_UP_MS_MAX,
                )
            except RemoteError:
                continue
            if reply.code == ResponseCode.SUCCESS:
                self._take_route(topic, reply.body)
            return

    def _take_route(self, topic: str, body: bytes) -> None:
        try:
            route = decode_body(body, TopicRouteData)
        except BadFields:
            return
        masters = {
            data.broker_name: data.broker_addrs[MASTER_ID]
            for data in route.broker_datas
            if MASTER_ID in data.broker_addrs
        }
        for data in route.broker_datas:
            self._masters.pop(data.broker_name, None)
        self._masters.update(masters)
        queues = [
            MessageQueue(topic, data.broker_name, number)
            for data in sorted(route.queue_datas, key=lambda data: data.broker_name)
            if is_writeable(data.perm) and data.broker_name in masters
            for number in range(min(data.write_queue_nums, QUEUES_MAX))
        ]
        known = self._targets.get(topic)
        if known is not None:
            known.queues = queues
        elif len(self._targets) < TOPICS_MAX:
            self._targets[topic] = Targets(queues, self._rng)
