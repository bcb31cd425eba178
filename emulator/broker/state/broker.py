"""The broker as a value: its tables, its store, and the outlets of both.

Handlers read and change this state through the methods below; this module imports none of them.
Besides their replies they have five outlets: ``note`` (record a fact), ``ring`` (wake held
calls), ``push`` (send a one-way request to a client), ``later`` (call a function at a time) and
``announce`` (register new or changed topics at the NameServers).

Upstream: BrokerController.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import msgspec

from rocketmq_emulator.broker.replication.auto_switch import AutoSwitchHaService
from rocketmq_emulator.broker.replication.ha_client import HaClient
from rocketmq_emulator.broker.replication.ha_service import HaService, ha_address
from rocketmq_emulator.broker.replication.member_group import MemberGroup, MinBrokerChange
from rocketmq_emulator.broker.replication.replicas_manager import ControlledReplica
from rocketmq_emulator.broker.replication.scheduling import Scheduling
from rocketmq_emulator.broker.replication.slave_synchronize import (
    CopiedTables,
    SlaveSynchronize,
)
from rocketmq_emulator.broker.state.outlets import (
    Announce,
    Waiting,
    WaitingBytes,
    no_announce,
    no_members,
    no_pools,
    no_push,
    no_ring,
    no_waiting_bytes,
    no_waiting_requests,
    run_now,
)
from rocketmq_emulator.broker.state.topic_routes import TopicRouteInfo
from rocketmq_emulator.broker.store.appender import MessageToStore, PutRefused, PutStatus
from rocketmq_emulator.broker.store.delays import ScheduleMessageService
from rocketmq_emulator.broker.store.put_chain import (
    PutChain,
    PutTransform,
    dead_letters,
    needs_replicas,
    prepare_half,
    set_delay_level,
    set_timer,
)
from rocketmq_emulator.broker.store.store import Store, StoreLoading
from rocketmq_emulator.broker.store.timer_messages import TimerMessageStore
from rocketmq_emulator.broker.store.transactions import TransactionalMessageService
from rocketmq_emulator.broker.tables.checks import bad_parameter_code, check_room, check_size
from rocketmq_emulator.broker.tables.client_channels import ClientChannels
from rocketmq_emulator.broker.tables.consumer_filters import ConsumerFilters
from rocketmq_emulator.broker.tables.locks import RebalanceLocks
from rocketmq_emulator.broker.tables.offsets import ConsumerOffsets
from rocketmq_emulator.broker.tables.subscription_groups import (
    MessageRequestModes,
    SubscriptionGroups,
)
from rocketmq_emulator.broker.tables.topics import TopicConfigs
from rocketmq_emulator.disk.port import WRITE_ERRORS, Disk, reason
from rocketmq_emulator.facts import MisuseNoticed, Queue, TopicDeleted
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.net.results import CallLater, Peer, Push, Refusal, Ring, see_faq
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.fields import Header
from rocketmq_emulator.protocol.messages.message_ids import host_bytes
from rocketmq_emulator.protocol.messages.misuses import Misuses
from rocketmq_emulator.protocol.requests.nameserver import ExchangeHAInfo
from rocketmq_emulator.settings.config import BrokerConfig, BrokerRole
from rocketmq_emulator.settings.quirks import class_for
from rocketmq_emulator.settings.releases import (
    BROKER_PERM_MASKS_TOPIC,
    DEAD_LETTERS_NEVER_WAIT,
    HALF_HAS_TRANSACTION_ID,
    OFFSETS_DELETED_WITH_TOPIC,
    REGISTER_TOPIC_SYNCHRONOUSLY,
    REGISTER_WAITS_LONGER,
    TIMER_MESSAGES_KNOWN,
    TIMER_METRIC_DELETED,
)

MASTER_ONLINE = (-1, 0)  # instead of an arrival: it ends every held pull of a queue
REGISTER_MS_MAX, REGISTER_MS_MAX_5 = 6_000, 24_000


class Broker:
    """One broker.  *disk* holds its log and its tables; *now_ms* is when it starts.

    *rng* decides which messages are refused when a slot of timer messages fills up.
    *loading* has read the log; without it the constructor reads the log, which may take long.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk,
        journal: Journal,
        now_ms: int,
        rng: random.Random | None = None,
        loading: StoreLoading | None = None,
    ) -> None:
        self.config = self.first_config = config
        self.disk = disk
        self.release = config.parsed_release
        self.bad_parameter_code = bad_parameter_code(self.release)
        self.see_faq = see_faq(self.release)  # the end of some remarks
        self.note = note = journal.note
        self.wants = journal.wants
        self._ring: Ring = no_ring
        self._push: Push = no_push
        self._later: CallLater = run_now
        self._announce: Announce = no_announce
        self._registering: dict[str, Hashable] = {}
        self._unannounced_topics: list[TopicConfig] | None = None  # in ``saved_in_one_write``
        self.address = config.advertised_address or config.listen_address
        self.topics = TopicConfigs(disk, config, note=self.note, now_ms=now_ms)
        self.groups = SubscriptionGroups(disk, config, note=self.note, now_ms=now_ms)
        self.offsets = ConsumerOffsets(disk, config, note=self.note, now_ms=now_ms)
        self.waiting: Waiting = no_waiting_requests
        self.waiting_bytes: WaitingBytes = no_waiting_bytes
        self.on_reconfigured: Callable[[BrokerConfig], object] = no_pools
        self.request_modes = MessageRequestModes(disk, config, note=self.note)
        self.routes = TopicRouteInfo()
        self.locks = RebalanceLocks(config.lock_ms_max)
        self.misuses = Misuses(lambda found: note(MisuseNoticed(*found)))
        self.clients = ClientChannels(config, now_ms, note=note, push=self.push, later=self.later)
        self.filters = ConsumerFilters(disk, config, note=self.note, now_ms=now_ms)
        self.clients.on_group_left = self.filters.unregister
        self.store_host = host_bytes(config.listen_address)  # packed; records carry it
        self.store = Store(
            disk,
            config,
            self.store_host,
            note=self.note,
            wants=self.wants,
            ring=no_ring,
            began_ms=now_ms,
            loading=loading,
        )
        self._take_role()
        self.on_role_changed: list[Callable[[], object]] = []  # all are called
        self.controlled: ControlledReplica | None = None  # in controller mode
        self.has_closed = False
        self.master_address: str | None = None  # of a slave's master, while it is registered
        self.ha: HaService | AutoSwitchHaService | None = None  # from ``connect_replicas`` on
        self.ha_client: HaClient | None = None  # the same; not in controller mode
        self.slave_synchronize: SlaveSynchronize | None = None
        self.members = MemberGroup(config)
        self.has_special_services = not (config.is_slave or config.enable_controller_mode)
        self.held_queues: set[tuple[str, int]] = set()  # a slave held pulls of them
        self.on_min_broker_changed: Callable[[MinBrokerChange], object] = no_members
        self.init_max_offset = self.store.log.end_position  # brokerInitMaxOffset
        self.master_flush_offset = 0  # at a slave: that of its master, or as it was set
        self.delays = ScheduleMessageService(
            self.store, disk, config, note=self.note, began_ms=now_ms
        )
        self.transactions = self._transactions(now_ms)
        self.timers: TimerMessageStore | None = None
        self.puts = self._put_chain(disk, now_ms, rng or random.Random(0))
        self.store.on_confirmed = self.puts.confirmed
        if loading is None:
            collections.deque(self.recover_timers(), maxlen=0)

    def _put_chain(self, disk: Disk, now_ms: int, rng: random.Random) -> PutChain:
        store, config = self.store, self.config
        may_wait = self.release < DEAD_LETTERS_NEVER_WAIT
        dead = dead_letters(self._make_dlq_topic, may_wait=may_wait)
        half = prepare_half(has_transaction_id=self.release >= HALF_HAS_TRANSACTION_ID)
        aside = set_delay_level(store.levels, store.check)
        asks_replicas = config.slave_acting_master and self.is_sync_master
        last = (self._with_enough_replicas,) if asks_replicas else ()
        if self.release < TIMER_MESSAGES_KNOWN:
            puts = PutChain(store, (dead, half, aside, *last))
            puts.on_half = self.transactions.half_stored
            return puts
        if config.timer_wheel:
            timers = self.timers = TimerMessageStore(
                store, disk, config, note=self.note, rng=rng, began_ms=now_ms
            )
        timed: PutTransform = set_timer(config, self.timers, store.check)
        puts = PutChain(store, (dead, half, timed, aside, *last), of_batches=(timed, *last))
        puts.on_half = self.transactions.half_stored
        if self.timers is not None:
            puts.on_timed = timers.enqueue
        return puts

    def _transactions(self, now_ms: int) -> TransactionalMessageService:
        kind = class_for(TransactionalMessageService, "broker", self.config.quirks)
        transactions = kind(
            self.store,
            self.offsets,
            self.config,
            note=self.note,
            wants=self.wants,
            began_ms=now_ms,
        )
        transactions.ask = partial(
            self.clients.ask_producer, code=RequestCode.CHECK_TRANSACTION_STATE
        )
        transactions.make_topic = self._make_own_topic
        return transactions

    def recover_timers(self) -> Iterator[None]:
        """Read the waiting timer messages, step by step; exhaust it before any other call.

        Needed only after a stepwise ``StoreLoading``: without *loading* the constructor does it.
        """
        return iter(()) if self.timers is None else self.timers.recover_waiting()

    # For the shell --------------------------------------------------------------------

    def connect(self, ring: Ring, push: Push, announce: Announce, later: CallLater) -> None:
        """Set the outlets; until then they do nothing."""
        self._ring, self._push, self._announce, self._later = ring, push, announce, later
        self.store.ring = ring

    def connect_replicas(self, scheduling: Scheduling) -> None:
        """Accept slaves from now on; a slave begins to look for its master."""
        config, wants = self.config, self.wants
        if config.enable_controller_mode:
            self.ha = AutoSwitchHaService(
                self.store, self.disk, config, scheduling, note=self.note, wants=wants
            )
            self.ha.on_changed = self._watch_growth
            self.slave_synchronize = self._slave_synchronize(scheduling.now_ms())
            return
        kind = class_for(HaService, "broker", config.quirks)
        self.ha = kind(self.store.log, config, scheduling, note=self.note, wants=wants)
        self.ha.on_changed = self._watch_growth
        if (copied := self.store.copied) is not None:
            self.ha_client = HaClient(copied, config, scheduling, self.note)
            self.slave_synchronize = self._slave_synchronize(scheduling.now_ms())

    def _slave_synchronize(self, now_ms: int) -> SlaveSynchronize:
        tables = CopiedTables(
            self.topics,
            self.groups,
            self.offsets,
            self.delays,
            self.request_modes,
            self.timers,
        )
        kind = class_for(SlaveSynchronize, "broker", self.config.quirks)
        return kind(tables, self.config, note=self.note, began_ms=now_ms)

    @property
    def auto_switch(self) -> AutoSwitchHaService:
        """The replication of a broker in controller mode, which follows its role."""
        assert isinstance(self.ha, AutoSwitchHaService), "only in controller mode"
        return self.ha

    def change_role(self, role: BrokerRole, broker_id: int) -> None:
        """Be *role* with the id *broker_id* from now on: 0 for a master.

        The settings say so, too, as upstream's do; a reset keeps it.  Replication and the store
        are changed by the caller.  Upstream: ReplicasManager.changeToMaster, changeToSlave.
        """
        self.first_config, config = (
            msgspec.structs.replace(each, broker_role=role, broker_id=broker_id)
            for each in (self.first_config, self.config)
        )
        self.reconfigure(config)
        self._take_role()
        for follow in self.on_role_changed:
            follow()

    def _take_role(self) -> None:
        self.is_sync_master = self.config.broker_role == "SYNC_MASTER"
        self.puts_wait = self.config.is_sync_flush or self.is_sync_master  # before an answer

    def begin_epoch(self, epoch: int, now_ms: int) -> None:
        """Count *epoch* in the versions of the tables, from the next one on.

        Upstream: DataVersion.nextVersion, DefaultMessageStore.setStateMachineVersion.
        """
        self.topics.state_version = self.groups.state_version = epoch
        self.topics.data_version = self.topics.data_version.next(now_ms, epoch)

    def _watch_growth(self, ha: HaService | AutoSwitchHaService) -> None:
        """Puts tell *ha* that the log has grown, but only while slaves are connected."""
        self.store.on_grown = ha.grown if ha.connections else None

    def learn_master(self, address: str | None, its_ha_address: str | None) -> None:
        """The addresses of the master, as a NameServer says; None while it knows none.

        A configured HA address is kept, also where it is lost (since 5.0.0), so that such a slave
        copies nothing.  Without a master the last HA address stays.
        """
        self.follow(address)
        is_told = not self.config.ha_master_address
        if isinstance(self.ha, AutoSwitchHaService) and its_ha_address:
            self.ha.update_ha_master_address(its_ha_address)
        if self.ha_client is not None and is_told and its_ha_address:
            self.ha_client.master_address = its_ha_address

    def take_ha_info(self, found: ExchangeHAInfo) -> None:
        """Copy from the HA address that a master has sent, from the next connection on.

        Upstream: AdminBrokerProcessor.updateBrokerHaInfo.
        """
        if self.ha_client is not None:
            self.ha_client.master_address = found.master_ha_address
        if self.config.sync_master_flush_offset and not self.master_flush_offset:
            self.master_flush_offset = found.master_flush_offset or 0

    def lose_master(self) -> None:
        """Forget the master, which NameServers no longer have; an open HA stream stays.

        Upstream: BrokerController.onMasterOffline.
        """
        self.learn_master(None, None)
        if self.ha_client is not None:
            self.ha_client.master_address = None

    def answer_held_pulls(self) -> None:
        """Answer every held pull: the master is back.

        Upstream: PullRequestHoldService.notifyMasterOnline.
        """
        queues, self.held_queues = sorted(self.held_queues), set()
        for queue in queues:
            self._ring(queue, MASTER_ONLINE)

    def replicas_needed(self) -> tuple[int, int]:
        """How many replicas must have a put, and how many are alive and not too far behind.

        This master is one of both.  Upstream: CommitLog.calcNeedAckNums.
        """
        config, ha = self.config, self.ha
        in_sync = min(self.members.alive_count, 1 if ha is None else ha.in_sync_count())
        if not config.auto_in_sync_replicas:
            return config.in_sync_replicas, in_sync
        return max(min(config.in_sync_replicas, in_sync), config.min_in_sync_replicas), in_sync

    def _with_enough_replicas(self, message: MessageToStore, _now_ms: int) -> MessageToStore:
        """The last transform of a put: raises ``PutRefused`` if too few replicas are in sync.

        A put that does not wait for replicas passes.
        """
        needed, in_sync = self.replicas_needed()
        if needed > in_sync and needs_replicas(message):
            why = f"{needed} replicas must have the message, {in_sync} are in sync"
            raise PutRefused(PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH, why)
        return message

    def follow(self, master_address: str | None) -> None:
        """Copy the tables of the broker at *master_address* from now on; None: of none."""
        self.master_address = master_address
        if self.slave_synchronize is not None:
            self.slave_synchronize.master_address = master_address

    def restart_replicas(self) -> None:
        """End the connections to slaves and to the master: the log was removed."""
        if self.ha is not None:
            self.ha.restart()
        if self.ha_client is not None:
            self.ha_client.restart()

    def close_replicas(self) -> None:
        """Close the connections to slaves and to the master."""
        if self.ha is not None:
            self.ha.close()
        if self.ha_client is not None:
            self.ha_client.close()

    def set_listen_address(self, address: str, store_host: str) -> None:
        """Set the address once the port is known.

        Clients are given *address*, which may have a host name; records carry *store_host*,
        the same address with an IP.
        """
        self.address = address
        self.store_host = self.store.store_host = host_bytes(store_host)

    def close(self, now_ms: int) -> None:
        """Write all tables and the store to disk, and close the store."""
        self.has_closed = True
        self.topics.close()
        self.groups.close()
        self.transactions.close(now_ms)
        self.offsets.persist()
        self.filters.persist(now_ms)
        self.delays.persist()
        if self.timers is not None:
            self.timers.persist(now_ms, at_the_end=True)
        self.store.close()

    # For handlers ---------------------------------------------------------------------

    def reconfigure(self, config: BrokerConfig) -> None:
        """Replace the settings by *config*; those that are only read at the start stay."""
        self.config = self.topics.config = self.groups.config = self.clients.config = config
        self.transactions.config = config
        self.store.reconfigure(config)
        if self.ha is not None:
            self.ha.reconfigure(config)
        self.on_reconfigured(config)

    def register_again(self, now_ms: int) -> Hashable | None:
        """Register every topic after a changed permission; returns as ``update_topic`` does."""
        version = self.topics.data_version
        self.topics.data_version = version.next(now_ms, self.topics.state_version)
        if self._announce is no_announce or not self._has_name_servers():
            return None
        bell = ("registered", "", self.topics.data_version.counter)
        self._announce(None, bell)
        return bell

    def advertise(self, address: str, store_host: str, now_ms: int) -> Hashable | None:
        """Give clients *address* from now on, and register it; returns as ``update_topic`` does.

        *store_host* is as in ``set_listen_address``; stored records keep theirs.
        """
        self.first_config, config = (
            msgspec.structs.replace(each, advertised_address=address)
            for each in (self.first_config, self.config)
        )
        self.reconfigure(config)
        self.set_listen_address(address, store_host)
        return self.register_again(now_ms)

    def queue(self, topic: str, queue_id: int) -> Queue:
        """The name of one of this broker's queues in facts."""
        return Queue(topic, self.config.name, queue_id)

    def push(self, peer: Peer, code: int, header: Header | None, body: bytes) -> bool:
        """Send a one-way request to a client; False if it is not sent."""
        return self._push(peer, code, header, body)

    def later(self, at_ms: int, action: Callable[[int], object]) -> None:
        """Call ``action(now_ms)`` at *at_ms*; for a past time, after the tasks that are ready."""
        self._later(at_ms, action)

    @property
    def ha_address(self) -> str:
        """The address for slaves.  Upstream: BrokerController.getHAServerAddr."""
        return ha_address(self.address, self.config)

    @property
    def register_call_ms_max(self) -> int:
        """The timeout of a registration at one NameServer."""
        own = REGISTER_MS_MAX_5 if self.release >= REGISTER_WAITS_LONGER else REGISTER_MS_MAX
        return self.config.register_call_ms_max or own

    def advertised(self, topic: TopicConfig) -> TopicConfig:
        """The topic as it is registered: the broker's own permission may restrict it."""
        if self.config.perm == flags.PERM_READ | flags.PERM_WRITE:
            return topic
        own = self.config.perm
        shown = topic.perm & own if self.release >= BROKER_PERM_MASKS_TOPIC else own
        return msgspec.structs.replace(topic, perm=shown)

    def advertised_table(self, names: Iterable[str]) -> dict[str, TopicConfig]:
        """The topics of *names* as they are registered."""
        table = self.topics.topic_config_table
        if self.config.perm != flags.PERM_READ | flags.PERM_WRITE:
            return {name: self.advertised(table[name]) for name in names if name in table}
        return table if names is table else table.subset(names)

    @contextmanager
    def saved_in_one_write(self) -> Iterator[None]:
        """Save the new topics and groups of this block in one write, at its end.

        New topics are announced together, after that.
        """
        new = self._unannounced_topics = []
        try:
            with self.topics.saved_in_one_write(), self.groups.saved_in_one_write():
                yield
        finally:
            self._unannounced_topics = None
            if new:
                self._announce_all(new)

    @property
    def host(self) -> str:
        """The broker's address without the port, for remarks.  Upstream: brokerIP1."""
        return self.address.rpartition(":")[0]

    # Topics ---------------------------------------------------------------------------

    def create_topic_on_send(
        self, name: str, template: str, queues_max: int, now_ms: int, *, sys_flag: int = 0
    ) -> TopicConfig | None:
        """The topic; a missing one is created and announced, if *template* allows it, else None.

        Raises ``Refusal`` if there are too many topics, or it cannot be saved.
        """
        self._check_room_for(name)
        made = self.topics.create_on_send(name, template, queues_max, now_ms, sys_flag=sys_flag)
        return None if made is None else self._announced(made)

    def ensure_topic(
        self,
        name: str,
        queues: int,
        now_ms: int,
        *,
        by: str,
        sys_flag: int = 0,
        order: bool = False,
    ) -> TopicConfig:
        """A retry or dead-letter topic; a missing one is created and announced.

        *by* is the kind of call that needs it.  Raises ``Refusal`` if there are too many topics.
        """
        is_known = self.topics.get(name) is not None
        self._check_room_for(name)
        found = self.topics.create_internal(
            name, queues, now_ms, by=by, sys_flag=sys_flag, order=order
        )
        return found if is_known else self._announced(found)

    def _make_dlq_topic(self, name: str, now_ms: int) -> None:
        self.ensure_topic(name, 1, now_ms, by="send")

    def _make_own_topic(self, name: str, now_ms: int) -> None:
        """A topic of one queue for transactions; without it its messages are stored as well."""
        with suppress(Refusal):
            self.ensure_topic(name, 1, now_ms, by="transaction check")

    def update_topic(self, topic: TopicConfig, now_ms: int) -> Hashable | None:
        """Create or change a topic; returns the bell of its registration.

        The bell rings when the registration has ended at every NameServer; None if no caller
        must wait.  Raises ``Refusal`` if there are too many topics, or it cannot be saved.
        """
        self._check_room_for(topic.topic_name or "")
        queues = max(topic.read_queue_nums, topic.write_queue_nums)
        check_size(queues, self.config.topic_queues_max, "queues of a topic")
        self.topics.update(topic, now_ms)
        self._announced(topic, is_awaited=True)
        return self._registering.get(topic.topic_name or "")

    def _check_room_for(self, topic: str) -> None:
        table = self.topics.topic_config_table
        if topic not in table:
            check_room(len(table), self.config.topics_max, "topics")

    def delete_topic(self, name: str, now_ms: int) -> None:
        """Delete a topic here; NameServers keep its route until they get a request to delete it.

        Raises ``Refusal`` if the change cannot be saved; then nothing is deleted.
        """
        try:
            self.store.drop_topic(name)
        except WRITE_ERRORS as error:
            remark = f"the topic {name} cannot be deleted: {reason(error)}"
            raise Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
        self.topics.delete(name, now_ms)
        self.note(TopicDeleted(name))
        self.store.figures.forget_topic(name)
        if self.timers is not None and self.release >= TIMER_METRIC_DELETED:
            self.timers.metrics.forget_topic(name)
        if self.release >= OFFSETS_DELETED_WITH_TOPIC:
            self.offsets.delete_topic(name)

    def registering(self, topic: str) -> Hashable | None:
        """The bell of a registration of *topic* that has not ended; None if there is none."""
        return self._registering.get(topic)

    def registered(self, topics: Iterable[str], bell: Hashable) -> None:
        """Ring *bell*: a registration of *topics* has ended at every NameServer."""
        for topic in topics:
            if self._registering.get(topic) == bell:  # else the topic has changed again
                del self._registering[topic]
        self._ring(bell, None)

    def _has_name_servers(self) -> bool:
        return bool(self.config.namesrv) or self.config.asks_address_server

    def _announced(self, topic: TopicConfig, *, is_awaited: bool = False) -> TopicConfig:
        if self._unannounced_topics is not None:
            self._unannounced_topics.append(topic)
        else:
            self._announce_all([topic], is_awaited=is_awaited)
        return topic

    def _announce_all(self, topics: list[TopicConfig], *, is_awaited: bool = False) -> None:
        if not self._has_name_servers():
            return
        bell: Hashable | None = None
        is_awaited = is_awaited or self.release >= REGISTER_TOPIC_SYNCHRONOUSLY
        if is_awaited and self._announce is not no_announce:
            names = [topic.topic_name or "" for topic in topics]
            bell = ("registered", names[0], self.topics.data_version.counter)
            self._registering.update(dict.fromkeys(names, bell))
        self._announce(topics, bell)
