"""All links of a cluster on real ports: a door from each side to each node, in one thread.

    clients ──door──► broker-a          broker-a ──door──► namesrv
    clients ──door──► namesrv           broker-b ──door──► namesrv

Nodes listen at ports that nobody is told; what brokers register, and what clients are given,
are doors.  A broker has doors of its own to the NameServers, so who connects is known by the
door.  With no fault a door passes everything on; what it costs is in BENCHMARKS.md.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec
import trio

from emulator.cluster.links.doors import Door
from emulator.cluster.links.effects import LinkRule
from emulator.cluster.links.reader_tasks import ReaderTasks
from emulator.cluster.links.sides import BROKERS, CLIENTS, NAME_SERVERS, SOME_CLIENTS, Names
from emulator.cluster.links.streams import Hub
from emulator.cluster.world import ClusterEnded
from emulator.config import BrokerConfig
from emulator.net.ready_sockets import ReadySockets, are_supported
from emulator.net.timers import Timers
from emulator.sim.tally import Tally

if TYPE_CHECKING:
    from emulator.cluster.faults.values import LinkFault
    from emulator.cluster.roles import RoleConfig
    from emulator.cluster.spec import ClusterSpec

R = TypeVar("R")

INSIDE = "127.0.0.1"  # where nodes listen that are reached by doors only
FAULTS_MAX = 1_000  # at one time: each is asked about each stream
END_S_MAX = 5.0
CALL_S_MAX = 10.0
CLIENTS_SIDE = ""  # the source of clients' doors


class TcpLinks:
    """Doors are bound when it is made, and refuse until their node is up.

    Its methods may be called from any thread.  Raises ``AddressInUse``.
    """

    def __init__(self, spec: ClusterSpec, seed: int | None = None) -> None:
        self._spec = spec
        self._rng = random.Random(seed)
        self._doors: dict[tuple[str, str], Door] = {}  # by source and target
        try:
            self._bind_doors()
        except BaseException:
            self._close_doors()
            raise
        self._hub: Hub | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._runs = threading.Event()
        self._thread = threading.Thread(target=self._run, name="links", daemon=True)
        self._thread.start()
        self._runs.wait()

    def close(self) -> None:
        """Reset all streams and give the ports back."""
        assert self._token is not None
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join(END_S_MAX)

    # Addresses ------------------------------------------------------------------------

    def address(self, name: str) -> str:
        """Where clients reach a node, ``host:port``."""
        return self._spec.reached_at(self._doors[CLIENTS_SIDE, name].address)

    def fitted(self, name: str, config: RoleConfig) -> RoleConfig:
        """*config* of a node behind doors: it listens inside, and uses doors itself."""
        config = msgspec.structs.replace(config, listen_address=f"{INSIDE}:0")
        if not isinstance(config, BrokerConfig):
            return config
        servers = [self._doors[name, server].address for server in self._spec.name_server_names]
        return msgspec.structs.replace(
            config, namesrv=tuple(servers), advertised_address=self.address(name)
        )

    def node_is_up(self, name: str, address: str) -> None:
        """The node listens at *address*: its doors lead there."""
        self._call(lambda: self._lead(name, address))

    def node_is_down(self, name: str) -> None:
        """The node has ended: its doors refuse."""
        self._call(lambda: self._lead(name, ""))

    # Faults ---------------------------------------------------------------------------

    @contextmanager
    def under(self, fault: LinkFault, tally: Tally | None = None) -> Iterator[Tally]:
        """Inside the block *fault* holds; *tally* counts what it does, in the links' thread.

        After it, what was held passes.  Raises ``ValueError`` where too many hold.
        """
        tally = tally or Tally()
        number = self._call(lambda: self._begin(fault, tally))
        try:
            yield tally
        finally:
            self._call(lambda: self._end(number))

    def client_names(self) -> tuple[str, ...]:
        """Of clients: what they have told brokers, and the name for all."""
        return self._call(self._client_names)

    # In the thread --------------------------------------------------------------------

    def _run(self) -> None:
        try:
            trio.run(self._live)
        finally:
            self._runs.set()

    async def _live(self) -> None:
        try:
            async with trio.open_nursery() as nursery:
                timers = Timers()
                reading = ReadySockets(nursery) if are_supported() else ReaderTasks(nursery)
                self._hub = Hub(nursery, reading, timers, self._rng)
                self._token = trio.lowlevel.current_trio_token()
                nursery.start_soon(timers.run)
                self._runs.set()
                with self._scope:
                    await trio.sleep_forever()
                nursery.cancel_scope.cancel()
        finally:
            self._close_doors()

    def _lead(self, name: str, address: str) -> None:
        for (_, target), door in self._doors.items():
            if target == name:
                door.node_address = address
                door.set_state(self._the_hub)

    def _begin(self, fault: LinkFault, tally: Tally) -> int:
        hub = self._the_hub
        if len(hub.rules) >= FAULTS_MAX:
            raise ValueError(f"{FAULTS_MAX} faults of links hold already: end some of them first")
        hub.last_number += 1
        hub.rules[hub.last_number] = LinkRule(hub.last_number, fault, tally)
        self._apply()
        return hub.last_number

    def _end(self, number: int) -> None:
        del self._the_hub.rules[number]
        self._apply()

    def _apply(self) -> None:
        rules = self._the_hub.rules.values()
        for door in self._doors.values():
            door.set_state(self._the_hub)
            for stream in list(door.streams):
                stream.apply(rules)

    def _client_names(self) -> tuple[str, ...]:
        names = {
            name
            for (source, _), door in self._doors.items()
            if source == CLIENTS_SIDE
            for stream in door.streams
            for name in stream.source
        }
        return (CLIENTS, *sorted(names - {CLIENTS}))

    # Inside ---------------------------------------------------------------------------

    def _bind_doors(self) -> None:
        spec = self._spec
        for name in spec.name_server_names:
            address = spec.name_server_config(name).listen_address
            self._bind(CLIENTS_SIDE, name, address)
            for broker in spec.broker_names:
                self._bind(broker, name, f"{INSIDE}:0")
        for name in spec.broker_names:
            self._bind(CLIENTS_SIDE, name, spec.broker_config(name).listen_address)

    def _bind(self, source: str, target: str, address: str) -> None:
        names = self._names_of(source), self._names_of(target)
        learns_names = not source and target in self._spec.broker_names
        self._doors[source, target] = Door(address, names, learns_names=learns_names)

    def _names_of(self, side: str) -> Names:
        if side == CLIENTS_SIDE:
            return SOME_CLIENTS
        return frozenset([side, BROKERS if side in self._spec.broker_names else NAME_SERVERS])

    def _close_doors(self) -> None:
        for door in self._doors.values():
            for stream in list(door.streams):
                stream.abort()
            door.close()

    @property
    def _the_hub(self) -> Hub:
        assert self._hub is not None
        return self._hub

    def _call(self, action: Callable[[], R]) -> R:
        """*action* in the thread, from any other; what it returns or raises."""
        results: list[R] = []
        errors: list[BaseException] = []
        is_done = threading.Event()

        def act() -> None:
            try:
                results.append(action())
            except BaseException as error:  # noqa: BLE001  # carried to the caller
                errors.append(error)
            is_done.set()

        assert self._token is not None
        self._token.run_sync_soon(act)
        if not is_done.wait(CALL_S_MAX):
            raise ClusterEnded("the links have ended")
        if errors:
            raise errors[0]
        return results[0]
