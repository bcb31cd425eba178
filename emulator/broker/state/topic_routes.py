"""The routes a broker keeps: those of topics whose queues it assigns to members (5.x).

A topic's route is looked up at the first request for it, and again every 30 seconds, at the first
NameServer that answers; a topic that no longer has a route is removed.

Upstream: TopicRouteInfoManager (5.x).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from rocketmq_emulator.errors.call_errors import RemoteError
from rocketmq_emulator.net.tasks import every_async
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_body
from rocketmq_emulator.protocol.bodies.routes import TopicRouteData
from rocketmq_emulator.protocol.codes import ResponseCode
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.protocol.flags import is_readable
from rocketmq_emulator.protocol.queues import MessageQueue
from rocketmq_emulator.protocol.requests.nameserver import GetRouteInfoRequest

if TYPE_CHECKING:
    from rocketmq_emulator.net.remoting_client import RemotingClient
    from rocketmq_emulator.net.tasks import TaskNursery

LOOK_UP_MS_MAX = 3_000  # MixAll.GET_TOPIC_ROUTE_TIMEOUT: for each NameServer
POLL_INTERVAL_MS = 30_000  # BrokerConfig.loadBalancePollNameServerInterval
TOPICS_MAX = 10_000  # ours: further topics are looked up at each request
QUEUES_MAX = 100_000  # ours, of one topic at one broker: a route with more counts as damaged


class TopicRouteInfo:
    """Readable queues by topic; ``connect`` sets the function that looks up other topics."""

    def __init__(self) -> None:
        self.subscribe_info: dict[str, list[MessageQueue]] = {}
        self._look_up: Callable[[str], Hashable] | None = None

    def connect(self, look_up: Callable[[str], Hashable]) -> None:
        """Look topics up by *look_up*, which returns the bell that rings at its end."""
        self._look_up = look_up

    def start_look_up(self, topic: str) -> Hashable | None:
        """Look *topic* up; returns the bell of the end, None if no look-up is needed."""
        if self.subscribe_info.get(topic) or self._look_up is None:
            return None
        return self._look_up(topic)


class TopicRoutePolling:
    """Requests *routes* from the NameServers; *ring* wakes the calls that wait for a topic."""

    def __init__(
        self,
        routes: TopicRouteInfo,
        client: RemotingClient,
        nursery: TaskNursery,
        name_servers: Callable[[], Sequence[str]],
        ring: Callable[[Hashable, object], object],
    ) -> None:
        self._routes = routes
        self._client = client
        self._nursery = nursery
        self._name_servers = name_servers
        self._ring = ring
        self._asked: set[str] = set()
        self._is_polling = False  # True from the first look-up on
        routes.connect(self.look_up)

    def look_up(self, topic: str) -> Hashable:
        """Start a look-up, unless one is running; returns the bell that rings at its end."""
        bell = ("route", topic)
        if not self._is_polling:
            self._is_polling = True
            self._nursery.start_soon(self._run)
        if topic not in self._asked:
            self._asked.add(topic)
            self._nursery.start_soon(self._look_up_and_ring, topic, bell)
        return bell

    async def _look_up_and_ring(self, topic: str, bell: Hashable) -> None:
        try:
            await self._refresh(topic)
        finally:
            self._asked.discard(topic)
            self._ring(bell, None)

    async def _run(self) -> None:
        """Look all known topics up again, at intervals; never returns."""
        await every_async(POLL_INTERVAL_MS, self._poll, first_ms=POLL_INTERVAL_MS)

    async def _poll(self) -> None:
        for topic in list(self._routes.subscribe_info):
            await self._refresh(topic)

    async def _refresh(self, topic: str) -> None:
        known = self._routes.subscribe_info
        for address in self._name_servers():
            try:
                reply = await self._client.invoke(
                    address,
                    catalog.GET_ROUTEINFO_BY_TOPIC,
                    GetRouteInfoRequest(topic=topic),
                    timeout_ms=LOOK_UP_MS_MAX,
                )
            except RemoteError:
                continue
            if reply.code == ResponseCode.TOPIC_NOT_EXIST:
                known.pop(topic, None)
            elif reply.code == ResponseCode.SUCCESS and len(known) < TOPICS_MAX:
                known[topic] = _readable(topic, reply.body)
            return


def _readable(topic: str, body: bytes) -> list[MessageQueue]:
    """The readable queues in the order that all members use; none for an unreadable route."""
    try:
        route = decode_body(body, TopicRouteData)
    except BadFields:
        return []
    parts = [data for data in route.queue_datas if is_readable(data.perm)]
    if any(data.read_queue_nums > QUEUES_MAX for data in parts):
        return []
    return sorted(
        {
            MessageQueue(topic, data.broker_name, number)
            for data in parts
            for number in range(data.read_queue_nums)
        }
    )
