"""The shell of a broker: it listens, registers, and runs the scheduled tasks.

Upstream: BrokerController.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from functools import partial

import msgspec
import trio

from rocketmq_emulator.broker.controller_task import ControllerTasks
from rocketmq_emulator.broker.copying_task import copy_master, synchronize_with_master
from rocketmq_emulator.broker.failover.acting_master import NameServerAsking, SlaveActingMaster
from rocketmq_emulator.broker.failover.escape_bridge import EscapeBridge
from rocketmq_emulator.broker.failover.pre_online import PreOnline
from rocketmq_emulator.broker.handlers.acknowledging import replicated_to, slaves_awaited
from rocketmq_emulator.broker.handlers.table import NOT_ON_VIP_PORT, handler_table
from rocketmq_emulator.broker.registration import NameServerRegistration
from rocketmq_emulator.broker.replication.ha_service import HaService, ha_address
from rocketmq_emulator.broker.replication.scheduling import Scheduling
from rocketmq_emulator.broker.state.broker import Broker
from rocketmq_emulator.broker.state.consistency import find_inconsistencies, reset_broker
from rocketmq_emulator.broker.state.pools import install_busy_pools
from rocketmq_emulator.broker.state.topic_routes import TopicRoutePolling
from rocketmq_emulator.broker.store.escaping import no_escape
from rocketmq_emulator.broker.store.store import StoreLoading
from rocketmq_emulator.broker.store.timer_messages import TimerMessageStore
from rocketmq_emulator.broker.tables.consumer_filters import PERSIST_INTERVAL_MS
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.disk.port import Disk
from rocketmq_emulator.facts import (
    HaPortNotOpen,
    NodeStarted,
    NodeStopped,
    StartedWithoutNameServer,
    StoreOpened,
)
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.net.address_server import (
    FETCH_FIRST_MS,
    FETCH_INTERVAL_MS,
    AddressServer,
    HttpFetcher,
    url_of,
)
from rocketmq_emulator.net.held_calls import FLUSHED_TO
from rocketmq_emulator.net.lookups import ThreadedHttpFetcher, resolve_address
from rocketmq_emulator.net.own_calls import answer_extension_calls, note_requests
from rocketmq_emulator.net.remoting_client import RemotingClient
from rocketmq_emulator.net.remoting_server import PortBeside, RemotingServer, VipPort
from rocketmq_emulator.net.tasks import OpenNursery, TaskNursery, every_async, every_service
from rocketmq_emulator.net.timers import Timer
from rocketmq_emulator.net.transport import Network
from rocketmq_emulator.protocol.messages.names import (
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
)
from rocketmq_emulator.settings.config import BrokerConfig
from rocketmq_emulator.settings.quirks import class_for
from rocketmq_emulator.settings.releases import HALF_MESSAGES_ESCAPE

RETENTION_INTERVAL_MS = 10_000  # DefaultMessageStore.addScheduleTask
PROTECT_INTERVAL_MS = 180_000  # BrokerController.protectBroker
UNREGISTER_S_MAX = 3.5
PRE_ONLINE_S_MAX = 15.0  # ours: then a start ends, and the broker goes on preparing


async def serve_broker(
    config: BrokerConfig,
    *,
    network: Network,
    disk: Disk,
    clock: WallClock,
    rng: random.Random,
    journal: Journal,
    stop: trio.Event,
    http: HttpFetcher | None = None,
    open_nursery: OpenNursery = trio.open_nursery,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run until *stop* is set.

    Reports its address to *task_status* once it listens and every reachable NameServer has
    registered it.
    """
    async with open_nursery() as nursery:
        # Resolve names first: the broker must not wait between listening and connecting.
        listen_address = await resolve_address(config.listen_address)
        config = msgspec.structs.replace(config, listen_address=listen_address)
        advertised = config.advertised_address
        store_host = await resolve_address(advertised) if advertised else ""
        broker = await _loaded(config, disk, journal, clock, rng)
        try:
            server = _server(broker, clock, journal, rng)
            connect_replicas(broker, server, clock)
            listeners = await server.serve_with_ports_beside(
                network, config.listen_address, nursery, _ports_beside(broker, server)
            )
            address = listeners[0].address
            broker.set_listen_address(advertised or address, store_host or address)
            client = _client(config, network, nursery, clock, journal)
            registration = _connected(broker, server, client, nursery)
            tasks = ScheduledTasks(broker, server, clock)
            server.on_closed = broker.clients.close
            _note_started(config, address, disk, journal)
            if config.enable_controller_mode:
                controlled = ControllerTasks(broker, client, nursery, rng)
                controlled.connect(registration, tasks.change_special_services)
                await controlled.start()
            tasks.start(nursery)  # before it waits for NameServers, which may hang for 24 s
            await registration.register()
            nursery.start_soon(_keep_registered, broker, registration, http, open_nursery)
            online = _going_online(broker, client, nursery, registration, tasks, rng)
            if config.enable_controller_mode:
                nursery.start_soon(copy_master, broker.auto_switch.client, network)
            elif broker.ha_client is not None:
                nursery.start_soon(copy_master, broker.ha_client, network)
            if broker.slave_synchronize is not None and not config.enable_controller_mode:
                synchronize = partial(synchronize_with_master, own_address=broker.address)
                nursery.start_soon(synchronize, broker.slave_synchronize, client, clock.now_ms)
            if broker.members.is_preparing:
                with trio.move_on_after(PRE_ONLINE_S_MAX):
                    await online.wait()
            task_status.started(address)
            await stop.wait()
            journal.note(NodeStopped("broker", "asked"))
            with trio.move_on_after(UNREGISTER_S_MAX):
                await registration.unregister(open_nursery)
            for listener in listeners:
                listener.close()
            server.close_all()
            broker.close_replicas()
            client.end()
        finally:
            broker.close(clock.now_ms())
        nursery.cancel_scope.cancel()


def _note_started(config: BrokerConfig, address: str, disk: Disk, journal: Journal) -> None:
    journal.note(NodeStarted("broker", address, config.release))
    hours, awaited = config.retained_hours_max, slaves_awaited(config)
    in_sync = config.enable_controller_mode and config.all_ack_in_sync_state_set
    opened = StoreOpened(config.flush_disk_type, disk.needs_flush, hours, awaited, in_sync)
    journal.note(opened)


async def _loaded(
    config: BrokerConfig, disk: Disk, journal: Journal, clock: WallClock, rng: random.Random
) -> Broker:
    """A broker that has read its store; other tasks run between the steps of reading."""
    loading = StoreLoading(disk, config, journal.note)
    for _ in loading.steps():
        await trio.lowlevel.checkpoint()
    broker = class_for(Broker, "broker", config.quirks)(
        config, disk=disk, journal=journal, now_ms=clock.now_ms(), rng=rng, loading=loading
    )
    for _ in broker.recover_timers():
        await trio.lowlevel.checkpoint()
    for fact in find_inconsistencies(broker):
        broker.note(fact)
    return broker


def _server(
    broker: Broker, clock: WallClock, journal: Journal, rng: random.Random
) -> RemotingServer:
    """A server with the handlers of *broker* and those of the emulator's own calls."""
    config, note = broker.config, journal.note
    handlers = handler_table(broker, rng, clock.now_ms())
    server = RemotingServer(clock, config.net, config.parsed_release, note, handlers)
    note_requests(server, journal)
    allowed = config.reply_rules_allowed
    pools = install_busy_pools(server, config, broker.puts)
    broker.waiting = pools.waiting
    broker.waiting_bytes = server.waiting_bytes
    broker.on_reconfigured = pools.reconfigure

    def reset(now_ms: int) -> Hashable | None:
        pools.reset()
        return reset_broker(broker, now_ms)

    answer_extension_calls(server, journal, allowed=allowed, rng=rng, reset=reset)
    return server


def connect_replicas(broker: Broker, server: RemotingServer, clock: WallClock) -> HaService:
    """Connect replication to *server*: its timers, its turns, and the puts that wait there."""

    def at(due_ms: int, action: Callable[[], object]) -> Timer:
        return server.timers.at(clock.trio_time(due_ms), action)

    broker.connect_replicas(Scheduling(clock.now_ms, at))
    ha = broker.ha
    assert ha is not None, "every broker accepts slaves"
    ha.run_at_turn_end = server.turn.at_end
    ha.on_acknowledged = partial(_raise_replicated, server)
    return ha


def _ports_beside(broker: Broker, server: RemotingServer) -> tuple[PortBeside, ...]:
    """The VIP channel, and the port for slaves."""
    ha = broker.ha
    assert ha is not None, "replicas are connected before the ports are opened"
    for_slaves = PortBeside(partial(ha_address, config=broker.config), ha.accept, HaPortNotOpen)
    return VipPort.beside(server, NOT_ON_VIP_PORT), for_slaves


def _raise_replicated(server: RemotingServer, ha: HaService) -> None:
    """Answer the puts that wait for what slaves have reported."""
    end = ha.log.end_position
    for replicas in ha.waited_for():
        server.raise_mark(replicated_to(replicas), min(ha.replicated_to(replicas), end))


def _connected(
    broker: Broker, server: RemotingServer, client: RemotingClient, nursery: TaskNursery
) -> NameServerRegistration:
    """The registration of *broker*; connects its outlets to *server* and to the NameServers."""
    registration = NameServerRegistration(broker, client, nursery)
    broker.connect(server.ring, server.push, registration.announce, server.later)
    TopicRoutePolling(broker.routes, client, nursery, registration.name_servers, server.ring)
    return registration


async def _keep_registered(
    broker: Broker,
    registration: NameServerRegistration,
    http: HttpFetcher | None,
    open_nursery: OpenNursery,
) -> None:
    """Register at intervals; an address server, if configured, returns the NameServers.

    Upstream: BrokerController.initialize, the task of fetchNameServerAddr.
    """
    config = broker.config
    if not config.asks_address_server:
        if not config.namesrv:
            broker.note(StartedWithoutNameServer(broker.address))
        await registration.run()
        return
    url = url_of(config.address_server_domain, config.address_server_subgroup)
    server = AddressServer(url, http or ThreadedHttpFetcher(), broker.note, registration.use)
    fetching = partial(every_async, FETCH_INTERVAL_MS, server.fetch, first_ms=FETCH_FIRST_MS)
    async with open_nursery() as nursery:
        nursery.start_soon(fetching)
        nursery.start_soon(registration.run)


def _going_online(
    broker: Broker,
    client: RemotingClient,
    nursery: TaskNursery,
    registration: NameServerRegistration,
    tasks: ScheduledTasks,
    rng: random.Random,
) -> trio.Event:
    """Follow the other brokers of the name if one may act as the master.

    Returns the event that a broker which started isolated has registered.
    """
    online = trio.Event()
    if not broker.config.slave_acting_master:
        return online
    asking = NameServerAsking(broker, client, registration.name_servers)
    acting = SlaveActingMaster(
        broker,
        client,
        nursery,
        asking=asking,
        own_address_at=registration.own_address_at,
        change_special_services=tasks.change_special_services,
    )
    acting.start()
    if broker.config.is_slave:
        _connect_escape(broker, client, nursery, registration, rng)

    async def prepare() -> None:
        await PreOnline(broker, client, asking=asking, serve=acting.serve).run()
        await registration.register()
        online.set()

    if broker.members.is_preparing:
        nursery.start_soon(prepare)
    return online


def _connect_escape(
    broker: Broker,
    client: RemotingClient,
    nursery: TaskNursery,
    registration: NameServerRegistration,
    rng: random.Random,
) -> None:
    """Let a slave that acts as the master send elsewhere what it may not store.

    Without ``remote_escape`` its store refuses deliveries, and half messages are skipped.
    """
    if broker.config.remote_escape:
        name_servers = registration.name_servers
        kind = class_for(EscapeBridge, "broker", broker.config.quirks)
        kind(broker, client, nursery, name_servers=name_servers, rng=rng).connect()
    else:
        broker.transactions.escape = no_escape
    if broker.release < HALF_MESSAGES_ESCAPE:
        broker.transactions.escape = None


def _client(
    config: BrokerConfig,
    network: Network,
    nursery: TaskNursery,
    clock: WallClock,
    journal: Journal,
) -> RemotingClient:
    """A client for this broker's own requests; it answers no request on these connections."""
    return RemotingClient(
        network,
        nursery,
        clock=clock,
        config=config.net,
        release=config.parsed_release,
        note=journal.note,
        handlers={},
    )


class ScheduledTasks:
    """The tasks that a broker runs without a request: at fixed intervals, or at a due time."""

    def __init__(self, broker: Broker, server: RemotingServer, clock: WallClock) -> None:
        self._broker = broker
        self._server = server
        self._clock = clock
        self._delivery: Timer | None = None
        self._flush: Timer | None = None
        self._timer_delivery: Timer | None = None
        self._transactions: Timer | None = None
        broker.has_special_services = False
        flushing = broker.store.flushing
        flushing.on_flushed = partial(server.raise_mark, FLUSHED_TO)
        flushing.on_failed = partial(server.give_up_mark, FLUSHED_TO)
        flushing.on_planned = self._plan_flush
        flushing.run_at_turn_end = server.turn.at_end
        for deliveries in (broker.delays, broker.timers):
            if deliveries is not None:
                deliveries.wall_ms = clock.now_ms

    def start(self, nursery: TaskNursery) -> None:
        """Run the tasks in *nursery* from now on."""
        config = self._broker.config
        # (action, interval, delay of the first run), in milliseconds
        services: tuple[tuple[Callable[[], object], int, int], ...] = (
            (self._scan_clients, config.client_scan_interval_ms, config.client_scan_interval_ms),
            (self._persist_offsets, config.persist_offsets_interval_ms, 10_000),
            (self._broker.delays.persist, config.persist_delays_interval_ms, 10_000),
            (self._persist_filters, PERSIST_INTERVAL_MS, 10_000),
            (self._disable_slow, PROTECT_INTERVAL_MS, PROTECT_INTERVAL_MS),
            (self._drop_expired, RETENTION_INTERVAL_MS, 60_000),
        )
        nursery.start_soon(every_service, services, self._clock.new_alarm())
        broker = self._broker
        broker.puts.on_delayed = broker.delays.on_escaped = self._plan_delivery
        broker.transactions.on_planned = self._plan_transactions
        broker.transactions.follow_clock(self._clock.ahead_ms)
        if (timers := broker.timers) is not None:
            timers.on_planned = partial(self._plan_timed, timers)
        if not (config.is_slave or broker.members.is_isolated):
            broker.has_special_services = True  # its store is read
            self._plan_special_services()
        elif timers is not None:
            timers.is_dequeuing = False  # until it runs the special services

    def change_special_services(self, active: bool) -> None:
        """Start or stop delayed messages, timer messages and checks of transactions.

        One broker of a name runs them: its master, or a slave that acts as one.  No effect if
        they run, or do not run, already.

        Upstream: BrokerController.changeSpecialServiceStatus.
        """
        if active == self._broker.has_special_services:
            return
        broker, now_ms = self._broker, self._clock.now_ms()
        broker.has_special_services = active
        if active:
            broker.delays.start(now_ms)
            broker.transactions.start(now_ms)
            if broker.timers is not None:
                broker.timers.start_dequeue()
            broker.store.on_copied = self._plan_copied
            self._plan_special_services()
            return
        broker.store.on_copied = None
        for timer in (self._delivery, self._timer_delivery, self._transactions):
            if timer is not None:
                timer.cancel()
        broker.delays.persist()
        broker.transactions.stop()
        if broker.timers is not None:
            broker.timers.stop_dequeue(now_ms)

    def _plan_copied(self, topic: str) -> None:
        """A slave that acts as a master still copied a message."""
        timers = self._broker.timers
        if topic == SCHEDULE_TOPIC:
            self._plan_delivery()
        elif topic == TIMER_TOPIC and timers is not None:
            timers.read_copied()
        elif topic == TRANS_HALF_TOPIC:
            self._broker.transactions.half_copied(self._clock.now_ms())

    def _plan_special_services(self) -> None:
        self._plan_delivery()
        self._plan_transactions()
        if (timers := self._broker.timers) is not None:
            self._plan_timed(timers)

    def _scan_clients(self) -> None:
        with self._server.batch():
            for peer in self._broker.clients.expire(self._clock.now_ms()):
                self._server.close(peer)

    def _drop_expired(self) -> None:
        self._broker.store.drop_expired(self._clock.now_ms())

    def _disable_slow(self) -> None:
        self._broker.groups.disable_slow(self._clock.now_ms())

    def _persist_offsets(self) -> None:
        self._run_slice(self._broker.offsets.persisting())

    def _persist_filters(self) -> None:
        self._broker.filters.persist(self._clock.now_ms())

    def _run_slice(self, slices: Iterator[None], _now_ms: int = 0) -> None:
        """Run one slice; the next one runs after the other tasks that are ready."""
        with suppress(StopIteration):
            next(slices)
            self._server.later(self._clock.now_ms(), partial(self._run_slice, slices))

    def _plan_delivery(self) -> None:
        """Set the timer to the time at which the next delayed message is due."""
        if not self._broker.has_special_services:
            return
        due_ms = self._broker.delays.next_due_ms(self._clock.now_ms())
        if due_ms is None:
            return
        self._delivery = self._reschedule(self._delivery, due_ms, self._deliver)

    def _deliver(self) -> None:
        with self._server.batch():
            self._broker.delays.deliver_due(self._clock.now_ms())
        self._plan_delivery()

    def _plan_timed(self, timers: TimerMessageStore) -> None:
        due_ms = timers.next_due_ms()
        if due_ms is not None and self._broker.has_special_services:
            self._timer_delivery = self._reschedule(
                self._timer_delivery, due_ms, partial(self._run_timed, timers)
            )

    def _run_timed(self, timers: TimerMessageStore) -> None:
        with self._server.batch():
            timers.run_due(self._clock.now_ms())
        self._plan_timed(timers)

    def _plan_transactions(self) -> None:
        due_ms = self._broker.transactions.next_due_ms()
        if due_ms is not None and self._broker.has_special_services:
            self._transactions = self._reschedule(
                self._transactions, due_ms, self._run_transactions
            )

    def _run_transactions(self) -> None:
        with self._server.batch():
            self._broker.transactions.run_due(self._clock.now_ms())
        self._plan_transactions()

    def _plan_flush(self) -> None:
        due_ms = self._broker.store.flushing.next_due_ms(self._clock.now_ms())
        if due_ms is not None:
            flush_due = self._broker.store.flushing.flush_due
            self._flush = self._reschedule(self._flush, due_ms, flush_due)

    def _reschedule(self, timer: Timer | None, due_ms: int, action: Callable[[], object]) -> Timer:
        """*timer* if it fires by *due_ms*; else a new timer for *action* replaces it."""
        due_s = self._clock.trio_time(due_ms)
        if timer is not None and timer.action is not None:
            if timer.at_s <= due_s:
                return timer
            timer.cancel()
        return self._server.timers.at(due_s, action)
