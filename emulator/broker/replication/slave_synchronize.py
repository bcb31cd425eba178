"""A slave copies its master's tables: topics, committed offsets, delay offsets, groups and more.

The slave asks for one table after another and replaces its own.  A step that fails is noted, and
the next one follows.  A table whose data version equals the master's is left as it is; consumer
offsets are always copied, and those of a topic and group that the master lacks stay.  Nothing else
is copied: no filters, no locks, no clients, no settings.

Since 5.3.2 topics and groups are deleted and added one by one, and each of these steps counts in
the version: so it never equals the master's, and the table is replaced in every round.  There an
entry with attributes cannot be added, and ends the step: the entries after it, in the order of the
master's answer, are missing here.

This decides what is due and changes the tables; the requests are the shell's.

Upstream: SlaveSynchronize, BrokerController.handleSlaveSynchronize (4.x),
BrokerController.initializeBrokerScheduledTasks (5.x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from rocketmq_emulator.broker.store.timer_wheel import decode_sent_checkpoint
from rocketmq_emulator.facts import MetadataSynced, MetadataSyncFailed
from rocketmq_emulator.facts.replication import (
    CONSUMER_OFFSETS_TABLE,
    DELAY_OFFSETS_TABLE,
    TIMER_CHECKPOINT_TABLE,
    TOPICS_TABLE,
)
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.body import decode_unlimited_body
from rocketmq_emulator.protocol.bodies.groups import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from rocketmq_emulator.protocol.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    TimerMetricsSerializeWrapper,
)
from rocketmq_emulator.protocol.bodies.running import MessageRequestModeTable
from rocketmq_emulator.protocol.bodies.topics import (
    DataVersion,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rocketmq_emulator.protocol.codes import ResponseCode, response_name
from rocketmq_emulator.protocol.fields import BadFields
from rocketmq_emulator.settings.releases import (
    SLAVE_SYNC_EVERY_10_S,
    SLAVE_SYNC_OF_5,
    SYNC_REPLACES_ONE_BY_ONE,
)
from rocketmq_emulator.text.values import vip_channel

if TYPE_CHECKING:
    from rocketmq_emulator.broker.store.delays import ScheduleMessageService
    from rocketmq_emulator.broker.store.timer_messages import TimerMessageStore
    from rocketmq_emulator.broker.tables.offsets import ConsumerOffsets
    from rocketmq_emulator.broker.tables.subscription_groups import (
        MessageRequestModes,
        SubscriptionGroups,
    )
    from rocketmq_emulator.broker.tables.topics import TopicConfigs
    from rocketmq_emulator.facts import Note
    from rocketmq_emulator.protocol.command import RemotingCommand
    from rocketmq_emulator.protocol.rpc import AnyRpc
    from rocketmq_emulator.settings.config import BrokerConfig

FULL_AFTER_MS = 60_000  # BrokerController.initializeBrokerScheduledTasks: lastSyncTimeMs (5.x)
FULL_AFTER_CONTROLLED_MS = 10_000  # ReplicasManager.handleSlaveSynchronize
Entry = TypeVar("Entry", TopicConfig, SubscriptionGroupConfig)


class CopiedTables(NamedTuple):
    """The tables that a slave copies; *timers* is None without a timer wheel."""

    topics: TopicConfigs
    groups: SubscriptionGroups
    offsets: ConsumerOffsets
    delays: ScheduleMessageService
    request_modes: MessageRequestModes
    timers: TimerMessageStore | None


class SyncStep(NamedTuple):
    """One table: its name in facts, the request, and the port of the master that is asked."""

    table: str
    rpc: AnyRpc
    replace: Callable[[SlaveSynchronize, bytes, int], object]
    is_on_vip_port: bool = False


class SyncTimes(NamedTuple):
    """The times of the shell's ticks: milliseconds since the start of the slave."""

    first_ms: int
    interval_ms: int


class SlaveSynchronize:
    """Copies into *tables* what a master answers.  *began_ms* is when the slave starts.

    ``master_address`` is None while no master is known: then every step is left out, silently.
    """

    def __init__(
        self, tables: CopiedTables, config: BrokerConfig, *, note: Note, began_ms: int
    ) -> None:
        release = config.parsed_release
        self.master_address: str | None = None
        self.tables = tables
        self.adds_one_by_one = release >= SYNC_REPLACES_ONE_BY_ONE
        self._config = config
        self._note = note
        self._is_of_5 = release >= SLAVE_SYNC_OF_5
        is_controlled = config.enable_controller_mode
        self._full_after_ms = FULL_AFTER_CONTROLLED_MS if is_controlled else FULL_AFTER_MS
        if config.slave_sync_interval_ms:
            self._full_after_ms = 0  # in every tick
        self._synced_ms = began_ms  # when the last full round ended, with a master or without
        self._failing: set[str] = set()

    @property
    def times(self) -> SyncTimes:
        """When ``due_steps`` is to be called; in controller mode, from each change on."""
        if interval_ms := self._config.slave_sync_interval_ms:
            return SyncTimes(first_ms=interval_ms, interval_ms=interval_ms)
        if self._config.enable_controller_mode:
            return SyncTimes(first_ms=3_000, interval_ms=3_000)
        if self._is_of_5:
            return SyncTimes(first_ms=10_000, interval_ms=3_000)
        if SLAVE_SYNC_EVERY_10_S.holds(self._config.parsed_release):
            return SyncTimes(first_ms=3_000, interval_ms=10_000)
        return SyncTimes(first_ms=10_000, interval_ms=60_000)

    def due_steps(self, now_ms: int) -> Sequence[SyncStep]:
        """The steps of this look, in their order; call ``finished`` after them."""
        if not self._is_of_5:
            return STEPS
        steps: list[SyncStep] = []
        if now_ms - self._synced_ms > self._full_after_ms:
            steps += (*STEPS, REQUEST_MODES)
            steps += () if self.tables.timers is None else (TIMER_METRICS,)
        if self.tables.timers is not None and not self.tables.timers.is_dequeuing:
            steps.append(TIMER_CHECKPOINT)
        return steps

    def address_for(self, step: SyncStep, own_address: str) -> str | None:
        """Where *step* is asked; None if it is left out.  A slave does not ask itself."""
        master = self.master_address
        if master is None or master == own_address:
            return None
        return vip_channel(master) if step.is_on_vip_port else master

    def take(self, step: SyncStep, reply: RemotingCommand, now_ms: int) -> None:
        """Replace the table of *step* by the one in *reply*, or note why not."""
        if reply.code != ResponseCode.SUCCESS:
            name = response_name(reply.code, self._config.parsed_release)
            self.failed(step, f"{name}: {reply.remark or ''}")
            return
        try:
            is_changed = step.replace(self, reply.body, now_ms)
        except BadFields as error:
            self.failed(step, str(error))
            return
        self._failing.discard(step.table)
        if is_changed:
            self._note(MetadataSynced(self.master_address or "", step.table))

    def failed(self, step: SyncStep, reason: str) -> None:
        """Note that *step* failed: the first of consecutive failures only."""
        if step.table not in self._failing:
            self._failing.add(step.table)
            self._note(MetadataSyncFailed(self.master_address or "", step.table, reason))

    def finished(self, steps: Sequence[SyncStep], now_ms: int) -> None:
        """All *steps* have ended.  A round counts even if no master was known."""
        if len(steps) > 1:
            self._synced_ms = now_ms


# The tables ---------------------------------------------------------------------------


def _replace_topics(slave: SlaveSynchronize, body: bytes, now_ms: int) -> bool:
    masters = decode_unlimited_body(body, TopicConfigSerializeWrapper)
    topics = slave.tables.topics
    if masters.data_version == topics.data_version:
        return False
    table = masters.topic_config_table
    if not slave.adds_one_by_one:
        topics.replace_all(table, masters.data_version)
        return True
    added = _added_one_by_one(topics.topic_config_table, table, masters.data_version, now_ms)
    topics.replace_all({}, added.emptied)
    topics.replace_all(added.table, added.version, is_saved=added.failing is None)
    added.check()
    return True


def _replace_groups(slave: SlaveSynchronize, body: bytes, now_ms: int) -> bool:
    masters = decode_unlimited_body(body, SubscriptionGroupWrapper)
    groups = slave.tables.groups
    if masters.data_version == groups.data_version:
        return False
    table = masters.subscription_group_table
    if not slave.adds_one_by_one:
        groups.replace_all(table, masters.data_version)
        return True
    groups.forbid_nothing()
    own = groups.subscription_group_table
    added = _added_one_by_one(own, table, masters.data_version, now_ms)
    groups.replace_all({}, added.emptied)
    groups.replace_all(added.table, added.version, is_saved=added.failing is None)
    added.check()
    return True


def _replace_offsets(slave: SlaveSynchronize, body: bytes, _now_ms: int) -> bool:
    masters = decode_unlimited_body(body, ConsumerOffsetSerializeWrapper)
    own = slave.tables.offsets.offset_table
    is_changed = any(own.get(key) != of for key, of in masters.offset_table.items())
    slave.tables.offsets.copy(masters)
    return is_changed


def _replace_delays(slave: SlaveSynchronize, body: bytes, _now_ms: int) -> bool:
    return slave.tables.delays.copy(body)


def _replace_request_modes(slave: SlaveSynchronize, body: bytes, _now_ms: int) -> bool:
    masters = decode_unlimited_body(body, MessageRequestModeTable)
    is_changed = masters != slave.tables.request_modes.table()
    slave.tables.request_modes.replace_all(masters)
    return is_changed


def _replace_timer_metrics(slave: SlaveSynchronize, body: bytes, _now_ms: int) -> bool:
    assert slave.tables.timers is not None, "else the step is not due"
    masters = decode_unlimited_body(body, TimerMetricsSerializeWrapper)
    return slave.tables.timers.metrics.copy(masters)


def _replace_timer_checkpoint(slave: SlaveSynchronize, body: bytes, _now_ms: int) -> bool:
    assert slave.tables.timers is not None, "else the step is not due"
    slave.tables.timers.copy_checkpoint(decode_sent_checkpoint(body))
    return False  # it is new each time: a fact every 3 s would say nothing


STEPS = (  # of every release, in upstream's order: SlaveSynchronize.syncAll
    SyncStep(TOPICS_TABLE, catalog.GET_ALL_TOPIC_CONFIG, _replace_topics, is_on_vip_port=True),
    SyncStep(CONSUMER_OFFSETS_TABLE, catalog.GET_ALL_CONSUMER_OFFSET, _replace_offsets),
    SyncStep(DELAY_OFFSETS_TABLE, catalog.GET_ALL_DELAY_OFFSET, _replace_delays),
    SyncStep("groups", catalog.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, _replace_groups),
)
REQUEST_MODES = SyncStep(
    "request modes", catalog.GET_ALL_MESSAGE_REQUEST_MODE, _replace_request_modes
)
TIMER_METRICS = SyncStep(
    "timer metrics", catalog.GET_TIMER_METRICS, _replace_timer_metrics, is_on_vip_port=True
)
TIMER_CHECKPOINT = SyncStep(
    TIMER_CHECKPOINT_TABLE,
    catalog.GET_TIMER_CHECK_POINT,
    _replace_timer_checkpoint,
    is_on_vip_port=True,
)


# Deleted and added one by one ---------------------------------------------------------


class _Added(NamedTuple, Generic[Entry]):
    """The table after all additions, and the versions of the empty table and of this one."""

    table: dict[str, Entry]
    emptied: DataVersion
    version: DataVersion
    failing: str | None

    def check(self) -> None:
        """Raises ``BadFields`` if an entry could not be added."""
        if self.failing is not None:
            raise BadFields(
                f"{self.failing} has attributes, so it and the entries after it are missing here"
            )


def _added_one_by_one(
    own: Iterable[str], masters: Mapping[str, Entry], version: DataVersion, now_ms: int
) -> _Added[Entry]:
    """Delete every *own* entry, which counts if the master has it, and add those of *masters*.

    Upstream: TopicConfigManager.updateSingleTopicConfigWithoutPersist, AttributeUtil.
    """
    for name in own:
        if name in masters:
            version = version.next(now_ms)
    emptied = version
    table: dict[str, Entry] = {}
    for name, entry in masters.items():
        if any(not key.startswith("+") for key in entry.attributes):
            return _Added(table, emptied, version, name)
        table[name] = entry
        version = version.next(now_ms)
    return _Added(table, emptied, version, None)
