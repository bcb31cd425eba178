"""The routes a client knows, and how they are kept fresh.

A route comes from *one* NameServer, is never removed, and is replaced only by another one:
without any NameServer a client continues with the routes it has.

Upstream: MQClientInstance.updateTopicRouteInfoFromNameServer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from emulator.client.errors import ClientErrorCode, NoNameServer
from emulator.client.instance.route_queues import (
    addresses_of,
    as_default,
    check_route,
    has_changed,
    subscribe_queues,
)
from emulator.facts import Note, RouteChanged, RouteQueriesFailing, RouteQueriesRecovered
from emulator.net.errors import NeverSent, RemoteError
from protocol.bodies.body import decode_long_body
from protocol.bodies.routes import TopicRouteData
from protocol.catalog import GET_ROUTEINFO_BY_TOPIC
from protocol.codes import ResponseCode
from protocol.fields import BadFields
from protocol.requests.routes import GetRouteInfoRequest

if TYPE_CHECKING:
    from emulator.client.config import ClientConfig
    from emulator.client.instance.addresses import BrokerAddresses, NameServerRing
    from emulator.client.instance.interfaces import RegisteredMembers
    from emulator.net.remoting_client import RemotingClient
    from protocol.command import RemotingCommand


class TopicRoutes:
    """``topic -> route`` of one instance; hands new routes to its producers and consumers."""

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
    ) -> None:
        self.table: dict[str, TopicRouteData] = {}
        self._config = config
        self._name_servers = name_servers
        self._remoting = remoting
        self._brokers = brokers
        self._members = members
        self._note = note
        self._now_ms = now_ms
        self._failing_since_ms: int | None = None
        self._failure = "none was asked"  # of the last query that none answered
        self._bodies: dict[str, bytes] = {}  # what each route was read from
        self._lock = trio.Lock()

    async def refresh(self, topic: str) -> bool:
        """Get the route of *topic*; True if it has changed, or some member needed it.

        An unknown topic changes nothing.  Raises ``NoNameServer`` if none answers.
        """
        async with self._locked() as is_locked:
            reply = await self._query(topic) if is_locked else None
            if reply is None or self._is_known(topic, reply.body):
                return False
            route = _read_route(reply)
            if route is None:
                return False
            is_taken = self._consider(topic, route)
            self._bodies[topic] = reply.body
            return is_taken

    async def refresh_quietly(self, topic: str) -> bool:
        """The same for who goes on without a route; False if no NameServer answered.

        That is a fact when it begins, and another when it is over.
        """
        try:
            await self.refresh(topic)
        except NoNameServer:
            # A client that is closed fails its calls: those who made them are cancelled, too.
            await trio.lowlevel.checkpoint_if_cancelled()
            self._fails()
            return False
        return True

    async def borrow_default(self, topic: str, default_topic: str, queues_max: int) -> bool:
        """Use the default topic's route for *topic*, which no broker knows yet."""
        async with self._locked() as is_locked:
            reply = await self._query(default_topic) if is_locked else None
            route = None if reply is None else _read_route(reply)
            self._bodies.pop(topic, None)  # what it lends is no answer for this topic
            return route is not None and self._consider(topic, as_default(route, queues_max))

    async def ask(self, topic: str, *, timeout_ms: int) -> TopicRouteData | None:
        """The route as a NameServer has it now, or None; the table does not change.

        Raises ``NoNameServer`` if none answers.
        """
        reply = await self._query(topic, timeout_ms)
        return None if reply is None else _read_route(reply)

    async def poll(self) -> None:
        """Refresh every topic some member uses; the first failing call ends the round."""
        for topic in self._members.topics():
            if not await self.refresh_quietly(topic):
                return

    async def forget_offline_brokers(self) -> None:
        """Drop addresses that occur in no known route.  Upstream: cleanOfflineBroker."""
        async with self._locked() as is_locked:
            if is_locked:
                routes = self.table.values()
                self._brokers.keep_only({a for route in routes for a in addresses_of(route)})

    # Inside ---------------------------------------------------------------------------

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[bool]:
        """One task at a time; False, and no lock, after ``route_lock_wait_ms_max``."""
        is_locked = False
        try:
            self._lock.acquire_nowait()  # nearly always free: then there is nothing to wait for
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
        """An answer that carries a route."""
        wait_ms = self._config.api_timeout_ms if timeout_ms is None else timeout_ms
        reply = await self._invoke(GetRouteInfoRequest(topic=topic), wait_ms)
        return reply if reply.code == ResponseCode.SUCCESS and reply.body else None

    def _is_known(self, topic: str, body: bytes) -> bool:
        """Whether *body* is what the route in the table was read from, and nobody lacks it."""
        return self._bodies.get(topic) == body and not self._members.needs_route(topic)

    async def _invoke(self, request: GetRouteInfoRequest, timeout_ms: int) -> RemotingCommand:
        """The next NameServer is tried only if this one cannot be connected."""
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
                self._works(address)
                return reply
        self._failure = failure
        raise NoNameServer(
            f"no NameServer answered for the route of {request.topic}: {failure}",
            code=ClientErrorCode.NO_NAME_SERVER,
        )

    def _fails(self) -> None:
        """Note the first failure in a row, not each."""
        if self._failing_since_ms is None:
            since_ms = self._failing_since_ms = self._now_ms()
            retry_ms = self._config.route_poll_interval_ms
            self._note(RouteQueriesFailing(self._failure, since_ms, retry_ms))

    def _works(self, address: str) -> None:
        if self._failing_since_ms is not None:
            failing_for_ms = self._now_ms() - self._failing_since_ms
            self._failing_since_ms = None
            self._note(RouteQueriesRecovered(address, failing_for_ms))

    def _consider(self, topic: str, route: TopicRouteData) -> bool:
        """Take *route* if it differs, or if some member lacks it."""
        changed = has_changed(self.table.get(topic), route)
        if not changed and not self._members.needs_route(topic):
            return False
        self._apply(topic, route)
        if changed:
            brokers = tuple(broker.broker_name for broker in route.broker_datas)
            self._note(RouteChanged(topic, brokers))
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
    """None for an unreadable route, which counts as none."""
    try:
        route = decode_long_body(reply.body, TopicRouteData)
        check_route(route)
    except BadFields:
        return None
    return route
