"""All links of a cluster on real ports: a proxy port for each source and node, in one thread.

    clients ──port──► broker-a          broker-a ──port──► namesrv
    clients ──port──► namesrv           broker-b ──port──► namesrv
    clients ──port − 2──► broker-a's VIP channel
    slaves ───port + 1──► broker-a's HA port

Nodes listen at ports that no peer uses directly; brokers register proxy ports, and clients use
them.  Each broker has its own ports to the NameServers, so the port identifies the source.
Without a fault a port forwards everything; BENCHMARKS.md has its cost.
On systems without epoll one task per socket reads it: as ``EpollReader``, but slower.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from rocketmq_emulator.cluster.links.endpoints import (
    BROKERS,
    CLIENTS,
    MASTERS,
    NAME_SERVERS,
    SLAVES,
    SOME_CLIENTS,
    Names,
)
from rocketmq_emulator.cluster.links.proxy_ports import ProxyPort
from rocketmq_emulator.cluster.links.shaping import LinkRule
from rocketmq_emulator.cluster.links.streams import ProxyContext
from rocketmq_emulator.cluster.world import ClusterEnded
from rocketmq_emulator.faults.links_and_drives import Tally
from rocketmq_emulator.net.epoll_reader import EpollReader, Readable, epoll_is_supported
from rocketmq_emulator.net.remoting_server import PORTS_TRIED_MAX
from rocketmq_emulator.net.tcp import bound_socket
from rocketmq_emulator.net.timers import Timers
from rocketmq_emulator.net.transport import AddressInUse
from rocketmq_emulator.settings.config import BrokerConfig
from rocketmq_emulator.text.values import next_port, split_address, vip_channel

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.fault_values import LinkFault
    from rocketmq_emulator.cluster.spec import ClusterSpec
    from rocketmq_emulator.processes.roles import RoleConfig


R = TypeVar("R")

NODE_HOST = "127.0.0.1"  # where nodes behind proxy ports listen
FAULTS_MAX = 1_000  # holding at the same time: each is checked for each stream
END_S_MAX = 5.0
CALL_S_MAX = 10.0
FROM_CLIENTS = ""  # the source of clients' proxy ports
FROM_CLIENTS_BY_VIP = "(VIP)"  # of those two below, the brokers' VIP channels
FROM_SLAVES = "(HA)"  # of the proxy ports one above: where slaves connect to their master
CLIENT_SOURCES = (FROM_CLIENTS, FROM_CLIENTS_BY_VIP)
BESIDE: dict[str, Callable[[str], str]] = {  # addresses beside a broker's own, by source
    FROM_CLIENTS_BY_VIP: vip_channel,
    FROM_SLAVES: next_port,
}


class TcpLinks:
    """The proxy ports of a cluster; bound at once, they refuse until their node is up.

    Its methods may be called from any thread.  Raises ``AddressInUse``.
    """

    def __init__(self, spec: ClusterSpec, seed: int | None = None) -> None:
        self._spec = spec
        self._rng = random.Random(seed)
        self._proxy_ports: dict[tuple[str, str], ProxyPort] = {}  # by source and target
        try:
            self._bind_proxy_ports()
        except BaseException:
            self._close_proxy_ports()
            raise
        self._context: ProxyContext | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._runs = threading.Event()
        self._thread = threading.Thread(target=self._run, name="links", daemon=True)
        self._thread.start()
        self._runs.wait()

    def close(self) -> None:
        """Reset all streams and close the ports."""
        assert self._token is not None
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join(END_S_MAX)

    # Addresses ------------------------------------------------------------------------

    def address(self, name: str) -> str:
        """The address that clients use for a node, ``host:port``."""
        return self._spec.reached_at(self._proxy_ports[FROM_CLIENTS, name].address)

    def fitted(self, name: str, config: RoleConfig) -> RoleConfig:
        """*config* changed for a node behind proxy ports: its own address, and those it uses."""
        config = msgspec.structs.replace(config, listen_address=f"{NODE_HOST}:0")
        if not isinstance(config, BrokerConfig):
            return config
        servers = [
            self._proxy_ports[name, server].address for server in self._spec.name_server_names
        ]
        return msgspec.structs.replace(
            config, namesrv=tuple(servers), advertised_address=self.address(name)
        )

    def node_is_up(self, name: str, address: str) -> None:
        """Let the node's proxy ports forward to *address*."""
        self._call(lambda: self._set_node_address(name, address))

    def node_is_down(self, name: str) -> None:
        """Let the node's proxy ports refuse: it has ended."""
        self._call(lambda: self._set_node_address(name, ""))

    # Faults ---------------------------------------------------------------------------

    @contextmanager
    def under(self, fault: LinkFault, tally: Tally | None = None) -> Iterator[Tally]:
        """Inside the block *fault* holds; *tally* counts its effects, in the links' thread.

        After it, held bytes pass.  Raises ``ValueError`` if FAULTS_MAX faults hold.
        """
        tally = tally or Tally()
        number = self._call(lambda: self._begin(fault, tally))
        try:
            yield tally
        finally:
            self._call(lambda: self._end(number))

    def client_names(self) -> tuple[str, ...]:
        """The names of connected clients from their heartbeats, and ``clients`` for all."""
        return self._call(self._client_names)

    # In the thread --------------------------------------------------------------------

    def _run(self) -> None:
        try:
            trio.run(self._run_until_closed)
        finally:
            self._runs.set()

    async def _run_until_closed(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                timers = Timers()
                reading = EpollReader(nursery) if epoll_is_supported() else ReaderTasks(nursery)
                self._context = ProxyContext(nursery, reading, timers, self._rng)
                self._token = trio.lowlevel.current_trio_token()
                nursery.start_soon(timers.run)
                self._runs.set()
                with self._scope:
                    await trio.sleep_forever()
                nursery.cancel_scope.cancel()
        finally:
            self._close_proxy_ports()

    def _set_node_address(self, name: str, address: str) -> None:
        for (source, target), proxy_port in self._proxy_ports.items():
            if target == name:
                beside = BESIDE.get(source)
                proxy_port.node_address = beside(address) if beside else address
                proxy_port.set_state(self._running_context)

    def _begin(self, fault: LinkFault, tally: Tally) -> int:
        context = self._running_context
        if len(context.rules) >= FAULTS_MAX:
            raise ValueError(f"{FAULTS_MAX} faults of links hold already: end some of them first")
        context.last_number += 1
        context.rules[context.last_number] = LinkRule(context.last_number, fault, tally)
        self._apply()
        return context.last_number

    def _end(self, number: int) -> None:
        del self._running_context.rules[number]
        self._apply()

    def _apply(self) -> None:
        rules = self._running_context.rules.values()
        for proxy_port in self._proxy_ports.values():
            proxy_port.set_state(self._running_context)
            for stream in list(proxy_port.streams):
                stream.apply(rules)

    def _client_names(self) -> tuple[str, ...]:
        names = {
            name
            for (source, _), proxy_port in self._proxy_ports.items()
            if source in CLIENT_SOURCES
            for stream in proxy_port.streams
            for name in stream.source
        }
        return (CLIENTS, *sorted(names - {CLIENTS}))

    # Inside ---------------------------------------------------------------------------

    def _bind_proxy_ports(self) -> None:
        spec = self._spec
        for name in spec.name_server_names:
            address = spec.name_server_config(name).listen_address
            self._bind(FROM_CLIENTS, name, address)
            for broker in spec.broker_names:
                self._bind(broker, name, f"{NODE_HOST}:0")
        for name in spec.broker_names:
            self._bind_ports(name, spec.broker_config(name).listen_address)

    def _bind_ports(self, broker: str, address: str) -> None:
        """Bind *broker*'s port and those beside it; port 0 is any that has free ones there."""
        is_any_port = split_address(address)[1] == 0
        for tries_left in reversed(range(PORTS_TRIED_MAX)):
            bound = [self._bind(FROM_CLIENTS, broker, address)]
            try:
                for source in self._sources_beside():
                    where = BESIDE[source](bound[0].address)
                    bound.append(self._bind(source, broker, where, if_unbound=is_any_port))
            except AddressInUse:
                if not (is_any_port and tries_left):
                    raise
                for proxy_port in bound:
                    proxy_port.close()
            else:
                return

    def _sources_beside(self) -> tuple[str, ...]:
        return tuple(BESIDE) if self._spec.slaves else (FROM_CLIENTS_BY_VIP,)

    def _bind(
        self, source: str, target: str, address: str, *, if_unbound: bool = False
    ) -> ProxyPort:
        names = self._names_of(source, target), self._names_of(target)
        learns_names = source in CLIENT_SOURCES and target in self._spec.broker_names
        is_vip = source == FROM_CLIENTS_BY_VIP
        sock = bound_socket(address, if_unbound=if_unbound)
        proxy_port = ProxyPort(sock, names, learns_names=learns_names, is_second=is_vip)
        self._proxy_ports[source, target] = proxy_port
        return proxy_port

    def _names_of(self, side: str, of_broker: str = "") -> Names:
        """The names of a side; of the HA port of *of_broker*: its slaves, which share it."""
        if side in CLIENT_SOURCES:
            return SOME_CLIENTS
        if side == FROM_SLAVES:
            slaves = [name for name in self._spec.slave_names if name != of_broker]
            mine = (name for name in slaves if self._is_slave_of(name, of_broker))
            return frozenset([BROKERS, SLAVES, *mine])
        if side in self._spec.name_server_names:
            return frozenset([side, NAME_SERVERS])
        return frozenset([side, BROKERS, SLAVES if side in self._spec.slave_names else MASTERS])

    def _is_slave_of(self, name: str, broker: str) -> bool:
        return self._spec.master_of(name)[0] == self._spec.master_of(broker)[0]

    def _close_proxy_ports(self) -> None:
        for proxy_port in self._proxy_ports.values():
            for stream in list(proxy_port.streams):
                stream.abort()
            proxy_port.close()

    @property
    def _running_context(self) -> ProxyContext:
        assert self._context is not None
        return self._context

    def _call(self, action: Callable[[], R]) -> R:
        """Run *action* in the links' thread, called from another; returns or raises as it does."""
        results: list[R] = []
        errors: list[BaseException] = []
        is_done = threading.Event()

        def act() -> None:
            try:
                results.append(action())
            except BaseException as error:  # noqa: BLE001  # raised in the caller's thread
                errors.append(error)
            is_done.set()

        assert self._token is not None
        self._token.run_sync_soon(act)
        if not is_done.wait(CALL_S_MAX):
            raise ClusterEnded("the links have ended")
        if errors:
            raise errors[0]
        return results[0]


# Reading without epoll ----------------------------------------------------------------


class ReaderTasks:
    """Reads sockets in tasks of *nursery*."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._scopes: dict[Readable, trio.CancelScope] = {}

    def add(self, socket: Readable) -> None:
        """Start reading *socket*, unless it is read already."""
        if socket not in self._scopes:
            self._scopes[socket] = trio.CancelScope()
            self._nursery.start_soon(self._read, socket, self._scopes[socket])

    def remove(self, socket: Readable) -> None:
        """Stop reading *socket*; must be called before it is closed."""
        if (scope := self._scopes.pop(socket, None)) is not None:
            scope.cancel()

    async def _read(self, socket: Readable, scope: trio.CancelScope) -> None:
        with scope:
            while True:
                await trio.lowlevel.wait_readable(socket.fileno())
                socket.readable()
                if self._scopes.get(socket) is not scope:
                    return
