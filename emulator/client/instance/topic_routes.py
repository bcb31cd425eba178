"""The routes that a client knows, how they are updated, and the queues and addresses in them.

A route comes from *one* NameServer, is never removed, and is replaced only by another route:
without any NameServer a client continues with the routes it has.  Producers and consumers use
different queues of a route, on purpose: a producer needs a master that can be written; a consumer
takes every queue that may be read, even if only slaves are left, or no broker at all.

Upstream: MQClientInstance.updateTopicRouteInfoFromNameServer, topicRouteData2TopicPublishInfo,
topicRouteData2TopicSubscribeInfo, topicRouteDataIsChange, brokerAddrTable,
findBrokerAddressInPublish, findBrokerAddressInSubscribe;
NettyRemotingClient.getAndCreateNameserverChannel.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import trio

from rocketmq_emulator.errors.call_errors import (
    ClientErrorCode,
    NeverSent,
    NoNameServer,
    RemoteError,
)
from rocketmq_emulator.errors.missing_routes import (
    TOPICS_WAIT_MS_MAX,
    RouteRefusal,
    why_no_route,
)
from rocketmq_emulator.facts import Note, RouteChanged, RouteQueriesFailing, RouteQueriesRecovered
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.routes import TopicList, TopicRouteData
from rocketmq_emulator.protocol.catalog import (
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    GET_ROUTEINFO_BY_TOPIC,
)
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import is_readable, is_writeable
from rocketmq_emulator.protocol.messages.names import MASTER_ID
from rocketmq_emulator.protocol.queues import MessageQueue, java_order
from rocketmq_emulator.protocol.requests.nameserver import GetRouteInfoRequest
from rocketmq_emulator.settings.releases import ONE_NAMESRV_A_CALL, Release

if TYPE_CHECKING:
    from rocketmq_emulator.client.instance.interfaces import RegisteredMembers
    from rocketmq_emulator.client.settings.config import ClientConfig
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.protocol.command import RemotingCommand


REFUSALS_KEPT_MAX = 100


class TopicRoutes:
    """``topic -> route`` of one instance; passes new routes to its producers and consumers."""

    def __init__(
        self,
        config: ClientConfig,
        name_servers: NameServerRing,
        *,
        remoting: RemotingClient,
        brokers: BrokerAddresses,
        members: RegisteredMembers,
        note: Note,
        now_ms: Callable[[], int],
        lists_topics: bool = False,
    ) -> None:
        self.table: dict[str, TopicRouteData] = {}
        self._config = config
        self._name_servers = name_servers
        self._remoting = remoting
        self._brokers = brokers
        self._members = members
        self._note = note
        self._now_ms = now_ms
        self._lists_topics = lists_topics
        self._refusals: dict[str, RouteRefusal] = {}  # the last ones, by topic
        self._failing_since_ms: int | None = None
        self._failure = "none was asked"  # of the last query without a reply
        self._bodies: dict[str, bytes] = {}  # the reply body of each route, by topic
        self._lock = trio.Lock()

    async def refresh(self, topic: str) -> bool:
        """Query the route of *topic*; True if it has changed, or a member needed it.

        An unknown topic changes nothing.  Raises ``NoNameServer`` if none replies.
        """
        async with self._locked() as is_locked:
            reply = await self._query(topic) if is_locked else None
            if reply is None or self._is_known(topic, reply.body):
                return False
            route = _read_route(reply)
            if route is None:
                return False
            is_taken = self._take_if_needed(topic, route)
            self._bodies[topic] = reply.body
            return is_taken

    async def refresh_quietly(self, topic: str) -> bool:
        """Like ``refresh``, but return False if no NameServer replies; otherwise True.

        The first failure in a row is noted as a fact, and the next success as another.
        """
        try:
            await self.refresh(topic)
        except NoNameServer:
            # A closing client ends its calls with errors, and cancels the tasks that made them.
            await trio.lowlevel.checkpoint_if_cancelled()
            self._note_failing()
            return False
        return True

    async def use_default_route(self, topic: str, default_topic: str, queues_max: int) -> bool:
        """Use the default topic's route for *topic*, which no broker has yet; True if used."""
        async with self._locked() as is_locked:
            reply = await self._query(default_topic) if is_locked else None
            route = None if reply is None else _read_route(reply)
            self._bodies.pop(topic, None)  # this route is not the topic's own
            return route is not None and self._take_if_needed(
                topic, default_topic_route(route, queues_max)
            )

    async def fetch(self, topic: str, *, timeout_ms: int) -> TopicRouteData | None:
        """The route as a NameServer has it now, or None; the table is not changed.

        Raises ``NoNameServer`` if none replies.
        """
        reply = await self._query(topic, timeout_ms)
        return None if reply is None else _read_route(reply)

    async def why_none(self, topic: str) -> str:
        """Why the last query found no route of *topic*: the sentence for an error.

        If *lists_topics* was given and the NameServer does not know the topic, requests the list
        of its topics once, for at most ``TOPICS_WAIT_MS_MAX``.
        """
        refusal = self._refusals.get(topic)
        topics = None
        if self._lists_topics and refusal is not None and refusal.is_unknown_topic:
            topics = await self._all_topics(refusal.address)
        return why_no_route(topic, refusal, topics)

    def unknown_for_ms(self, topic: str) -> int:
        """For how long the NameServer has not known *topic*, in all answers; 0 if it does."""
        refusal = self._refusals.get(topic)
        if refusal is None or not refusal.is_unknown_topic or topic in self.table:
            return 0
        return self._now_ms() - refusal.since_ms

    async def poll(self) -> None:
        """Refresh every topic that a member uses; the first failing query ends the round."""
        for topic in self._members.topics():
            if not await self.refresh_quietly(topic):
                return

    async def forget_offline_brokers(self) -> None:
        """Remove addresses that are in no known route.  Upstream: cleanOfflineBroker."""
        async with self._locked() as is_locked:
            if is_locked:
                routes = self.table.values()
                self._brokers.keep_only({a for route in routes for a in addresses_of(route)})

    # Inside ---------------------------------------------------------------------------

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[bool]:
        """Hold the lock inside; yields False, without it, after ``route_lock_wait_ms_max``."""
        is_locked = False
        try:
            self._lock.acquire_nowait()  # nearly always free
            is_locked = True
        except trio.WouldBlock:
            with trio.move_on_after(self._config.route_lock_wait_ms_max / 1000):
                await self._lock.acquire()
                is_locked = True
        try:
            yield is_locked
        finally:
            if is_locked:
                self._lock.release()

    async def _query(self, topic: str, timeout_ms: int | None = None) -> RemotingCommand | None:
        """A reply with a route; None if the topic is unknown."""
        wait_ms = self._config.api_timeout_ms if timeout_ms is None else timeout_ms
        address, reply = await self._invoke(GetRouteInfoRequest(topic=topic), wait_ms)
        if reply.code == ResponseCode.SUCCESS and reply.body:
            self._refusals.pop(topic, None)
            return reply
        before = self._refusals.get(topic)
        since_ms = self._now_ms() if before is None else before.since_ms
        self._refusals[topic] = RouteRefusal(address, reply.code, reply.remark or "", since_ms)
        if len(self._refusals) > REFUSALS_KEPT_MAX:
            del self._refusals[next(iter(self._refusals))]
        return None

    async def _all_topics(self, address: str) -> list[str] | None:
        """The topics of the NameServer at *address*; None without an answer that has them."""
        try:
            reply = await self._remoting.invoke(
                address, GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, timeout_ms=TOPICS_WAIT_MS_MAX
            )
            if reply.code != ResponseCode.SUCCESS:
                return None
            return decode_unlimited_body(reply.body, TopicList).topic_list
        except (RemoteError, BadFields):
            return None

    def _is_known(self, topic: str, body: bytes) -> bool:
        """Whether the route in the table was read from *body*, and no member needs it."""
        return self._bodies.get(topic) == body and not self._members.needs_route(topic)

    async def _invoke(
        self, request: GetRouteInfoRequest, timeout_ms: int
    ) -> tuple[str, RemotingCommand]:
        """The answer of a NameServer, after its address.

        The next one is tried only if no connection can be opened.
        """
        failure = "the address server has not named one"
        for address in self._name_servers.candidates(self._remoting.is_connected):
            self._name_servers.choose(address)
            try:
                reply = await self._remoting.invoke(
                    address,
                    GET_ROUTEINFO_BY_TOPIC,
                    request,
                    timeout_ms=timeout_ms,
                )
            except NeverSent as error:
                failure = str(error)
            except RemoteError as error:
                failure = str(error)
                break
            else:
                self._note_recovered(address)
                return address, reply
        self._failure = failure
        raise NoNameServer(
            f"no NameServer answered for the route of {request.topic}: {failure}",
            code=ClientErrorCode.NO_NAME_SERVER,
        )

    def _note_failing(self) -> None:
        """Note only the first failure in a row."""
        if self._failing_since_ms is None:
            since_ms = self._failing_since_ms = self._now_ms()
            retry_ms = self._config.route_poll_interval_ms
            self._note(RouteQueriesFailing(self._failure, since_ms, retry_ms))

    def _note_recovered(self, address: str) -> None:
        if self._failing_since_ms is not None:
            failing_for_ms = self._now_ms() - self._failing_since_ms
            self._failing_since_ms = None
            self._note(RouteQueriesRecovered(address, failing_for_ms))

    def _take_if_needed(self, topic: str, route: TopicRouteData) -> bool:
        """Use *route* if it differs from the known one, or if a member needs it."""
        changed = has_changed(self.table.get(topic), route)
        if not changed and not self._members.needs_route(topic):
            return False
        self._apply(topic, route)
        if changed:
            brokers = tuple(broker.broker_name for broker in route.broker_datas)
            without_master = tuple(
                broker.broker_name
                for broker in route.broker_datas
                if MASTER_ID not in broker.broker_addrs
            )
            self._note(RouteChanged(topic, brokers, without_master))
        return True

    def _apply(self, topic: str, route: TopicRouteData) -> None:
        for broker in route.broker_datas:
            self._brokers.put(broker.broker_name, broker.broker_addrs)
        for producer in self._members.producers.values():
            producer.take_route(topic, route)
        queues = subscribe_queues(topic, route)
        for consumer in self._members.consumers.values():
            if consumer.subscribes(topic):
                consumer.take_route(topic, queues)
        self.table[topic] = route


def _read_route(reply: RemotingCommand) -> TopicRouteData | None:
    """The route in *reply*; None if it is unreadable."""
    try:
        route = decode_unlimited_body(reply.body, TopicRouteData)
        check_route(route)
    except BadFields:
        return None
    return route


# Queues of a route --------------------------------------------------------------------


QUEUES_MAX = 100_000  # ours, per topic and broker: a route with more is damaged


def check_route(route: TopicRouteData) -> None:
    """Raise ``BadFields`` for a queue count above ``QUEUES_MAX`` or an unreadable order list."""
    counts = [
        n for data in route.queue_datas for n in (data.read_queue_nums, data.write_queue_nums)
    ]
    counts += [count for _, count in _order_entries(route.order_topic_conf or "")]
    if max(counts, default=0) > QUEUES_MAX:
        raise BadFields(f"{max(counts)} queues of one topic at one broker")


def publish_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """The queues that can be written, sorted, or as the order configuration lists them."""
    if route.order_topic_conf:
        return list(_ordered_queues(topic, route.order_topic_conf))
    masters = {b.broker_name for b in route.broker_datas if MASTER_ID in b.broker_addrs}
    return [
        MessageQueue(topic, data.broker_name, number)
        for data in sorted(route.queue_datas, key=lambda data: java_order(data.broker_name))
        if is_writeable(data.perm) and data.broker_name in masters
        for number in range(data.write_queue_nums)
    ]


def subscribe_queues(topic: str, route: TopicRouteData) -> frozenset[MessageQueue]:
    """Every queue that may be read, even if its broker is not registered."""
    return frozenset(
        MessageQueue(topic, data.broker_name, number)
        for data in route.queue_datas
        if is_readable(data.perm)
        for number in range(data.read_queue_nums)
    )


def write_queues(route: TopicRouteData) -> dict[str, int]:
    """The number of write queues by broker, for any permission; the first entry counts."""
    return {data.broker_name: data.write_queue_nums for data in reversed(route.queue_datas)}


def has_changed(old: TopicRouteData | None, new: TopicRouteData) -> bool:
    """Whether *new* differs from *old* in more than the order of entries."""
    return old is None or _normal(old) != _normal(new)


def default_topic_route(route: TopicRouteData, queues_max: int) -> TopicRouteData:
    """The default topic's *route*, for a topic that does not exist yet.

    Both queue counts become the smaller of *queues_max* and the number of read queues.
    """
    lent = []
    for data in route.queue_datas:
        count = min(queues_max, data.read_queue_nums)
        lent.append(msgspec.structs.replace(data, read_queue_nums=count, write_queue_nums=count))
    return msgspec.structs.replace(route, queue_datas=lent)


def addresses_of(route: TopicRouteData) -> Iterator[str]:
    """The addresses of all its brokers, masters and slaves."""
    for broker in route.broker_datas:
        yield from broker.broker_addrs.values()


def _ordered_queues(topic: str, configuration: str) -> Iterator[MessageQueue]:
    """The queues of ``broker-a:4;broker-b:2``; permissions and masters are not checked."""
    for broker, count in _order_entries(configuration):
        for number in range(count):
            yield MessageQueue(topic, broker, number)


def _order_entries(configuration: str) -> Iterator[tuple[str, int]]:
    for entry in filter(None, configuration.split(";")):
        broker, _, count = entry.partition(":")
        if not (count.isascii() and count.isdigit() and len(count) < 10):
            raise BadFields(f"an order configuration looks like broker-a:4, not {entry!r:.50}")
        yield broker, int(count)


def _normal(route: TopicRouteData) -> tuple[Any, ...]:
    queues = sorted(route.queue_datas, key=lambda data: java_order(data.broker_name))
    brokers = sorted((b.broker_name, sorted(b.broker_addrs.items())) for b in route.broker_datas)
    return (route.order_topic_conf, queues, brokers, route.filter_server_table)


# Addresses of brokers and NameServers -------------------------------------------------


_START_BELOW = 999  # a client starts at a random index of the ring below this


class FindBrokerResult(NamedTuple):
    """An address to read from.  Upstream: FindBrokerResult."""

    address: str
    is_slave: bool


class BrokerAddresses:
    """``broker name -> broker id -> address``, from the routes."""

    def __init__(self) -> None:
        self._table: dict[str, dict[int, str]] = {}

    def put(self, broker: str, addresses: Mapping[int, str]) -> None:
        """Replace the addresses of *broker*; *addresses* are by broker id."""
        self._table[broker] = dict(addresses)

    def all(self) -> Iterator[tuple[str, int, str]]:
        """Yield (broker name, broker id, address), in the order they became known."""
        for broker, addresses in self._table.items():
            for broker_id, address in addresses.items():
                yield broker, broker_id, address

    def has(self, address: str) -> bool:
        """Whether any known broker has *address*."""
        return any(address == known for _, _, known in self.all())

    def keep_only(self, addresses: Collection[str]) -> None:
        """Remove every other address.  Upstream: cleanOfflineBroker."""
        kept = {
            broker: {n: address for n, address in known.items() if address in addresses}
            for broker, known in self._table.items()
        }
        self._table = {broker: known for broker, known in kept.items() if known}

    # By purpose -----------------------------------------------------------------------

    def to_publish(self, broker: str) -> str | None:
        """The address of the master; None if it is not known."""
        return self._table.get(broker, {}).get(MASTER_ID)

    def to_subscribe(
        self, broker: str, broker_id: int, *, only_this: bool
    ) -> FindBrokerResult | None:
        """The address of *broker_id*, or for a slave that of the next id.

        Otherwise any address of *broker*, or None with *only_this*.
        """
        known = self._table.get(broker)
        if not known:
            return None
        wanted = [broker_id] if broker_id == MASTER_ID else [broker_id, broker_id + 1]
        for candidate in wanted:
            if candidate in known:
                return FindBrokerResult(known[candidate], is_slave=candidate != MASTER_ID)
        if only_this:
            return None
        any_id, address = next(iter(known.items()))
        return FindBrokerResult(address, is_slave=any_id != MASTER_ID)


class NameServerRing:
    """The NameServers, shuffled, and the chosen one, which is used as long as it is connected."""

    def __init__(self, addresses: Sequence[str], rng: random.Random, release: Release) -> None:
        self._ring = list(addresses)
        rng.shuffle(self._ring)
        self._index = rng.randrange(_START_BELOW)
        self._tries_one = release >= ONE_NAMESRV_A_CALL
        self._tries = 1 if self._tries_one else len(self._ring)
        self.chosen: str | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """All NameServers, in the order in which they are tried."""
        return tuple(self._ring)

    def replace(self, addresses: Sequence[str], rng: random.Random) -> str | None:
        """Replace all addresses; returns the chosen one if it was removed, otherwise None.

        Upstream: NettyRemotingClient.updateNameServerAddressList.
        """
        self._ring = list(addresses)
        rng.shuffle(self._ring)
        if not self._tries_one:
            self._tries = len(self._ring)
        if self.chosen is None or self.chosen in self._ring:
            return None
        left, self.chosen = self.chosen, None
        return left

    def candidates(self, is_connected: Callable[[str], bool]) -> list[str]:
        """The servers that one call tries in order, until one can be connected."""
        if not self._ring:
            return []
        if self.chosen is not None and is_connected(self.chosen):
            return [self.chosen]
        turn = range(1, self._tries + 1)
        return [self._ring[(self._index + step) % len(self._ring)] for step in turn]

    def choose(self, address: str) -> None:
        """Use *address* from now on; the next candidates are the addresses after it."""
        changes = address != self.chosen or self._tries == 1
        if changes and address in self._ring:  # otherwise the ring was replaced
            self._index = self._ring.index(address)
        self.chosen = address
