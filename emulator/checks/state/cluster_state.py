"""The cluster as a whole, from its journal: running members, queues, and faults.

Checkers read it; the driver updates it before they are given an entry.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from rocketmq_emulator.checks.state.broker_roles import SLAVE, ElectedMasters, name_of
from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING, Disturbances, Span
from rocketmq_emulator.checks.state.message_labels import MessageLabels, matches
from rocketmq_emulator.checks.state.replicas import MastersAndSlaves
from rocketmq_emulator.checks.state.sync_state_sets import SyncStateSets
from rocketmq_emulator.checks.state.topic_table import QueueCounts, TopicTable
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    FaultEnded,
    MetadataSynced,
    NodeKilled,
    NodeStarted,
    NodeStopped,
    PowerLost,
    Queue,
    RouteChanged,
    RunEnded,
    RunStarted,
    StoreOpened,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry
from rocketmq_emulator.facts.replication import TOPICS_TABLE
from rocketmq_emulator.protocol.messages.subscription import SQL92, typed_expression

PRODUCERS_MAX = 100_000  # of a load
EVERYTHING = ("", "*")  # expressions that match every message
TAGS_SINCE = 3  # schema
SET_TOO_SMALL = "in-sync replicas not enough"  # CommitLog.asyncPutMessage: nothing was stored
# A master whose slaves may act counts a slave only after it has registered, and at the next of its
# questions, one a second, to a NameServer (CommitLog.calcNeedAckNums, syncBrokerMemberGroup).
MEMBERS_US = 4_000_000
SUBSCRIBED_US = 180_000_000  # until the subscription of a silently ended member is removed
Wanted: TypeAlias = Literal["all", "some", "none"]


class ConsumerRecord(msgspec.Struct):
    """A consumer as a member of its group, on a node.  Times are ``mono_us``."""

    node: str
    started: ConsumerStarted
    from_us: int
    until_us: int | None = None  # its end; None: it runs
    was_killed: bool = False

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.until_us is None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it subscribes."""
        return self.started.topics

    def wants(self, topic: str, labels: MessageLabels) -> bool | None:
        """Whether it wants messages of *topic* with *labels*.

        None if its SQL92 expression depends on properties that facts do not have.
        """
        text = self._wanted_of(topic)
        expression, kind = typed_expression(text)
        if kind == SQL92:
            return matches(expression, self.started.release, labels)
        return text in EVERYTHING or labels.tags in {each.strip() for each in text.split("||")}

    def takes_all_of(self, topic: str) -> bool:
        """Whether it wants every message of *topic*."""
        return self._wanted_of(topic) in EVERYTHING

    def _wanted_of(self, topic: str) -> str:
        return dict(zip(self.topics, self.started.expressions, strict=False)).get(topic, "*")


class MissingRoute(msgspec.Struct):
    """A client's routes lack a broker.  Times are ``mono_us``."""

    from_us: int
    until_us: int | None = None

    def held(self, at_us: int) -> bool:
        """Whether the routes lacked the broker at *at_us*."""
        return self.from_us <= at_us and (self.until_us is None or at_us < self.until_us)


class _Clients(msgspec.Struct, frozen=True):
    """The fields of a part of a plan that checkers read."""

    group: str = ""
    settings: dict[str, Any] = {}
    producers: Annotated[int, msgspec.Meta(ge=0, le=PRODUCERS_MAX)] = 1
    from_ms: int = 0


class _Cluster(msgspec.Struct, frozen=True):
    broker_settings: dict[str, Any] = {}
    name_server_settings: dict[str, Any] = {}
    settings_of: dict[str, dict[str, Any]] = {}


class _Plan(msgspec.Struct):
    """The fields of a plan that checkers read; a plan of another shape counts as missing."""

    cluster: _Cluster = _Cluster()
    consumers: list[_Clients] = []
    load: list[_Clients] = []
    programs: list[dict[str, Any]] = []


class ClusterState(Disturbances):
    """The cluster by the facts up to now."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Entry | None = None  # last entry given to the driver
        self.run: RunStarted | None = None
        self.run_ended: RunEnded | None = None
        self.plan: dict[str, Any] = {}
        self.consumers: dict[
            str, list[ConsumerRecord]
        ] = {}  # group: all its members ever, in order
        self.broadcast: set[str] = set()  # groups
        self.orderly: set[str] = set()
        self.topics = TopicTable()
        self._counts = QueueCounts()
        self.stores: dict[str, StoreOpened] = {}  # by broker, as last opened
        self.roles = ElectedMasters()  # masters that controllers elect
        self.in_sync = SyncStateSets(self.roles)  # with a table of its own
        self.replicas = MastersAndSlaves(self.roles)  # with a table of its own
        self._routes: dict[tuple[str, str], tuple[str, ...]] = {}  # by node and topic: brokers
        self._unrouted: dict[tuple[str, str], MissingRoute] = {}  # by node and broker
        self._without_master: dict[str, set[str]] = {}  # by node: brokers of its last routes
        self._takes_all: dict[tuple[str, str], bool] = {}  # by group and topic, until one joins
        self.has_filters = False  # some member ever did not want every message
        self.knows_tags = True  # MessageStored has tags
        self._knows_properties = False  # and the application's properties
        self._wants: dict[tuple[str, str, MessageLabels], Wanted] = {}  # the same
        self._topics_of: dict[str, set[str]] = {}  # by group; the same
        self._plans: dict[str, list[dict[str, Any]]] = {}  # by group; a cache

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            **self.topics.table(),
            **self._counts.table(),
            TopicCreated: self._topic_changed,
            TopicChanged: self._topic_changed,
            RunStarted: self._run_started,
            RunEnded: self._run_ended,
            ConsumerStarted: self._consumer_started,
            ConsumerStopped: self._consumer_stopped,
            StoreOpened: self._store_opened,
            RouteChanged: self._route_changed,
            NodeStarted: self._node_started,
            NodeStopped: self._node_stopped,
            NodeKilled: self._node_killed,
            PowerLost: self._power_lost,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
            BrokerRoleChanged: self._role_changed,
            MetadataSynced: self._synced,
        }

    # Queries ------------------------------------------------------------------------------

    @property
    def now_us(self) -> int:
        """The time of the last entry that was given to the driver: for the end of a rule only.

        While entries are given it stays that of the entry before them.
        """
        return self.last.mono_us if self.last is not None else 0

    @property
    def slaves_may_act(self) -> bool:
        """Whether slaves of the plan's cluster act as masters while these are away."""
        cluster = self.plan.get("cluster", {})
        settings = cluster.get("broker_settings", {})
        given = settings.get("slave_acting_master", cluster.get("acting_master", False))
        return given is True

    def spans_without_puts(self, broker: str, until_us: int) -> list[Span]:
        """The times up to *until_us* in which the sync-state set was too small for clients' puts.

        What the broker stores again itself it stores then, too: WAIT is false.
        Upstream: CommitLog.asyncPutMessage, needHandleHA, minInSyncReplicas.
        """
        settings = self.plan.get("cluster", {}).get("broker_settings", {})
        least = settings.get("min_in_sync_replicas", 1)
        if not isinstance(least, int):
            return []
        return [*self.in_sync.spans_below(broker, least, until_us)]

    def stores_nothing(self, broker: str, now_us: int) -> bool:
        """Whether *broker* refuses what clients send now, as its sync-state set is too small."""
        return any(end_us == now_us for _, end_us in self.spans_without_puts(broker, now_us))

    def is_confirmed(self, broker: str, end: int) -> bool:
        """Whether all of the sync-state set have the log up to *end*: only that can be read.

        Upstream: CommitLog.getConfirmOffset, allAckInSyncStateSet.
        """
        store = self.stores.get(broker)
        if store is None or not store.awaits_sync_state_set:
            return True
        slaves = self.replicas.slaves
        in_sync = self.in_sync.slaves_of(broker)
        return all(slaves[node].common_end >= end for node in in_sync if node in slaves)

    def lacks_slaves(self, broker: str, now_us: int) -> bool:
        """Whether *broker* waits for slaves, and had too few of them, or may have counted so.

        Upstream: CommitLog.calcNeedAckNums; BrokerController.syncBrokerMemberGroup counts them.
        """
        store, master = self.stores.get(broker), self.replicas.of(broker)
        if store is None or not (store.slaves_awaited or store.awaits_sync_state_set):
            return False
        counted_us = MEMBERS_US if self.slaves_may_act else 0
        is_calm = master is not None and master.changed_us + counted_us < now_us
        return master is None or len(master.connected) < store.slaves_awaited or not is_calm

    def running(self, group: str) -> list[ConsumerRecord]:
        """The members of *group* that have not ended."""
        return [consumer for consumer in self.consumers.get(group, ()) if consumer.is_running]

    def consumer(self, group: str, node: str) -> ConsumerRecord | None:
        """The last member of *group* on *node*."""
        for consumer in reversed(self.consumers.get(group, ())):
            if consumer.node == node:
                return consumer
        return None

    def topics_of(self, group: str) -> set[str]:
        """All topics that members of *group* ever subscribed."""
        found = self._topics_of.get(group)
        if found is None:
            found = {
                topic for consumer in self.consumers.get(group, ()) for topic in consumer.topics
            }
            self._topics_of[group] = found
        return found

    def last_end_us(self, group: str, node: str) -> int | None:
        """When the member of *group* on *node* ended that ran before the current one."""
        ended = [
            s.until_us for s in self.consumers.get(group, ()) if s.node == node and s.until_us
        ]
        return ended[-1] if ended else None

    def last_long_end_us(self, group: str, node: str, least_us: int) -> int:
        """When the last member of *group* on *node* ended that ran for *least_us*; 0: none."""
        return max(
            (
                consumer.until_us
                for consumer in self.consumers.get(group, ())
                if consumer.node == node
                and consumer.until_us
                and consumer.until_us - consumer.from_us > least_us
            ),
            default=0,
        )

    def has_in_route(self, node: str, queue: Queue) -> bool:
        """Whether a route of the client on *node* has the queue's broker."""
        return queue.broker in self._routes.get((node, queue.topic), (queue.broker,))

    def has_master_address(self, node: str, broker: str) -> bool:
        """Whether the last route of *broker* that the client on *node* got names its master.

        Locks are asked for and given back at masters only.
        Upstream: MQClientInstance.findBrokerAddressInSubscribe with onlyThisBroker.
        """
        return broker not in self._without_master.get(node, ())

    def missing_route(self, node: str, broker: str) -> MissingRoute | None:
        """The last time in which no route of the client on *node* had *broker*."""
        return self._unrouted.get((node, broker))

    def counts_differ(self, group: str, topic: str) -> bool:
        """Whether members count different queues of *topic*, as some NameServer lacks some."""
        if group in self.broadcast or not self.topics.is_lacking(topic):
            return False
        began_us = {consumer.node: consumer.from_us for consumer in self.running(group)}
        return self._counts.differ(group, topic, began_us)

    def takes_all(self, group: str, topic: str) -> bool:
        """Whether no member of *group* ever filtered messages of *topic*."""
        if (known := self._takes_all.get((group, topic))) is not None:
            return known  # called for each message
        found = all(consumer.takes_all_of(topic) for consumer in self.consumers.get(group, ()))
        self._takes_all[group, topic] = found
        return found

    def wants(self, group: str, topic: str, labels: MessageLabels) -> Wanted:
        """Whether all members of *group*, some or none want messages of *topic* with *labels*."""
        if not self.knows_tags:
            return "some"
        labels = self.known(labels)
        known = self._wants.get((group, topic, labels))
        if known is None:
            answers = {
                consumer.wants(topic, labels)
                for consumer in self.consumers.get(group, ())
                if topic in consumer.topics
            }
            if len(answers) > 1 or None in answers:
                known = "some"
            else:
                known = "none" if answers == {False} else "all"
            self._wants[group, topic, labels] = known
        return known

    def known(self, labels: MessageLabels) -> MessageLabels:
        """*labels*; without properties unless all brokers filter by them from their start on."""
        return labels if self._knows_properties else labels.without_properties()

    def is_wanted(
        self,
        group: str,
        topic: str,
        labels: MessageLabels | None,
        since_us: int,
        until_us: int,
    ) -> bool:
        """Whether all members that ran then, or shortly before, want *labels* (None: unknown)."""
        if self.takes_all(group, topic):
            return True
        known = self.known(labels) if self.knows_tags and labels is not None else None
        if known is not None and self.wants(group, topic, known) == "all":
            return True  # also those that ran at other times
        return all(
            consumer.takes_all_of(topic)
            or (known is not None and consumer.wants(topic, known) is True)
            for consumer in self.consumers.get(group, ())
            if topic in consumer.topics
            and consumer.from_us <= until_us
            and (consumer.until_us is None or consumer.until_us >= since_us - SUBSCRIBED_US)
        )

    def plans_of(self, group: str) -> list[dict[str, Any]]:
        """The parts of the plan that create members of *group*."""
        found = self._plans.get(group)
        if found is None:
            consumers = self.plan.get("consumers", ())
            found = self._plans[group] = [part for part in consumers if part.get("group") == group]
        return found

    def keeps_offsets(self, group: str) -> bool:
        """Whether the plan gives the broadcasting group a folder that keeps its offsets."""
        plans = self.plans_of(group)
        return any(each.get("settings", {}).get("offset_folder") for each in plans)

    def reads(self, reader: str) -> bool:
        """Whether a member of *reader* runs: any of the group, or of *group@node* on the node."""
        group, _, node = reader.partition("@")
        if not node:
            return bool(self.running(group))
        consumer = self.consumer(group, node)
        return consumer is not None and consumer.is_running

    def kinds(self, group: str) -> set[str]:
        """The kinds of consumers that were members of *group*: push, lite_pull, pull."""
        return {consumer.started.consumer_kind for consumer in self.consumers.get(group, ())}

    # Handlers -----------------------------------------------------------------------------

    def _run_started(self, fact: RunStarted, entry: Entry) -> None:
        self.knows_tags = fact.schema >= TAGS_SINCE
        self.run = fact
        self._plans.clear()
        try:
            msgspec.json.decode(fact.plan or "{}", type=_Plan)
            self.plan = msgspec.json.decode(fact.plan or "{}")
            settings = self.plan.get("cluster", {}).get("broker_settings", {})
            self._knows_properties = settings.get("property_filter") is True
        except msgspec.MsgspecError:
            self.plan = {}

    def _topic_changed(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        """A slave has its own topics until its next copy."""
        if self.replicas.may_be_elected(entry.node):
            self.topics.changed_at_slave(fact, entry.node)
        elif not (self.slaves_may_act and SLAVE.fullmatch(entry.node)):
            self.topics.table()[type(fact)](fact, entry)

    def _synced(self, fact: MetadataSynced, entry: Entry) -> None:
        if fact.table == TOPICS_TABLE and self.replicas.may_be_elected(entry.node):
            self.topics.copied(entry.node, name_of(entry.node), entry.mono_us)

    def _run_ended(self, fact: RunEnded, entry: Entry) -> None:
        self.run_ended = fact

    def _consumer_started(self, fact: ConsumerStarted, entry: Entry) -> None:
        self._end_consumers(entry.node, entry.mono_us, fact.group)
        self.consumers.setdefault(fact.group, []).append(
            ConsumerRecord(entry.node, fact, entry.mono_us)
        )
        self._topics_of.clear()
        self._takes_all.clear()
        self._wants.clear()
        self.has_filters = self.has_filters or not set(fact.expressions) <= set(EVERYTHING)
        if fact.broadcast:
            self.broadcast.add(fact.group)
        if fact.orderly and not fact.broadcast:
            self.orderly.add(fact.group)

    def _consumer_stopped(self, fact: ConsumerStopped, entry: Entry) -> None:
        consumer = self.consumer(fact.group, entry.node)
        if consumer is not None and consumer.is_running:
            consumer.until_us = entry.mono_us

    def _route_changed(self, fact: RouteChanged, entry: Entry) -> None:
        node, before = entry.node, self._routes.get((entry.node, fact.topic), ())
        self._routes[node, fact.topic] = fact.brokers
        without = self._without_master.setdefault(node, set())
        without.difference_update(fact.brokers)  # the addresses of a broker, for all topics
        without.update(fact.without_master)
        for broker in sorted({*before, *fact.brokers}):
            known = self._unrouted.get((node, broker))
            if not any(broker in all_ for (at, _), all_ in self._routes.items() if at == node):
                self._unrouted[node, broker] = MissingRoute(entry.mono_us)
            elif known is not None and known.until_us is None:
                known.until_us = entry.mono_us

    def _store_opened(self, fact: StoreOpened, entry: Entry) -> None:
        self.stores[entry.node] = fact
        self.topics.restarted(entry.node, entry.mono_us)

    def _node_started(self, fact: NodeStarted, entry: Entry) -> None:
        self.knows_tags = self.knows_tags and fact.schema >= TAGS_SINCE
        self.process_begins(entry.node, entry.mono_us)

    def _node_stopped(self, fact: NodeStopped, entry: Entry) -> None:
        self.process_ends(entry.node, entry.mono_us)

    def _node_killed(self, fact: NodeKilled, entry: Entry) -> None:
        self.process_ends(fact.node, entry.mono_us)
        self._end_consumers(fact.node, entry.mono_us)

    def _power_lost(self, fact: PowerLost, entry: Entry) -> None:
        self.process_ends(entry.node, entry.mono_us)
        self._end_consumers(entry.node, entry.mono_us)
        self.topics.lost_power(fact, entry.node)

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        self.fault_begins(fact, entry.mono_us)
        if self.all_faults[-1].word in PROCESS_ENDING:
            for node in fact.nodes:
                self._end_consumers(node, entry.mono_us)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        if (move := self.roles.move) is not None:
            self.role_moves(move.name, move.left, move.after, entry.mono_us)
            self.topics.moved(move.name, move.slave, move.left, entry.mono_us)

    def _fault_ended(self, fact: FaultEnded, entry: Entry) -> None:
        self.fault_ends(fact, entry.mono_us)

    def _end_consumers(self, node: str, at_us: int, group: str | None = None) -> None:
        """End the members on *node*: its process has ended, or a new one has started."""
        for name, consumers in self.consumers.items():
            if group in (None, name):
                for consumer in consumers:
                    if consumer.node == node and consumer.is_running:
                        consumer.until_us, consumer.was_killed = at_us, True
