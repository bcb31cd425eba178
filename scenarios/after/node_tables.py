"""The tables of all nodes after any fact of a journal, forwards and backwards.

They are folded from facts: roles, members, owners of queues, committed offsets.  A table is rows
by name, and each row is items with values: ``committed`` of a broker has a row for each group and
topic, and its items are queues.  The tables hold only what facts show: state from before the
journal, and state that no node records as a fact, is missing.

Going back starts from the nearest earlier copy of the tables; one is kept every
``COPY_EVERY_FACTS`` facts.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from rocketmq_emulator.checks.state.broker_roles import ElectedMasters, name_of
from rocketmq_emulator.checks.state.queue_positions import QueueOwners, QueuePositions
from rocketmq_emulator.checks.state.replicas import MastersAndSlaves
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    BrokerExpired,
    BrokerIsolated,
    BrokerRegistered,
    BrokerReset,
    BrokerRoleChanged,
    BrokerUnregistered,
    BusyPoolSet,
    ConsumerStarted,
    ConsumerStopped,
    FaultBegan,
    FaultEnded,
    MemberJoined,
    MemberLeft,
    MessageConsumed,
    MessagePolled,
    NameServerReset,
    NodeKilled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    NodeStopped,
    PullAnswered,
    PullHeld,
    QueuesClaimed,
    QueuesLocked,
    QueuesReleased,
    QueuesUnlocked,
    ReplyRuleRemoved,
    ReplyRuleSet,
    RouteChanged,
    SeekRequested,
    StoreOpened,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry

COPY_EVERY_FACTS = 2_000
US_A_S = 1_000_000


class ItemChange(msgspec.Struct, frozen=True):
    """An item of a table that is new (*before* is None), removed (*now* is None) or changed."""

    node: str
    table: str
    row: str
    item: str
    before: Value | None
    now: Value | None


class InspectedMoment(msgspec.Struct, frozen=True, kw_only=True):
    """The state after *number* of *fact_count* facts: the last fact, its changes, all tables."""

    number: int
    fact_count: int
    at_s: float  # since the first fact
    last: Entry | None
    changes: tuple[ItemChange, ...]
    nodes: dict[str, NodeTables]


class JournalCursor:
    """A position in *entries*, which are in the order of time and at least one."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._times = [entry.mono_us for entry in entries]
        self._tables = ClusterTables()
        self._copies = {0: copy.deepcopy(self._tables)}
        self.number = 0

    @property
    def fact_count(self) -> int:
        """The number of facts in the whole journal."""
        return len(self._entries)

    def number_at(self, seconds: float) -> int:
        """How many facts were written in the first *seconds*."""
        return bisect_right(self._times, self._times[0] + round(seconds * US_A_S))

    def go(self, number: int, at_s: float | None = None) -> InspectedMoment:
        """Moves to the position after *number* facts, or to the nearest end of the journal.

        With *at_s*, the tables are those of that time: items that expired by then are left out.
        Times are seconds since the first fact.
        """
        number = max(0, min(number, self.fact_count))
        self._stand(max(0, number - 1))
        before = self._tables.at(self._us_at(number - 1))
        self._stand(number)
        now_us = self._us_at(number)
        if at_s is not None:
            now_us = max(now_us, self._times[0] + round(at_s * US_A_S))
        nodes = self._tables.at(now_us)
        return InspectedMoment(
            number=number,
            fact_count=self.fact_count,
            at_s=(now_us - self._times[0]) / US_A_S,
            last=self._entries[number - 1] if number else None,
            changes=changes_of(before, nodes),
            nodes=nodes,
        )

    def _us_at(self, number: int) -> int:
        return self._times[max(0, number - 1)]

    def _stand(self, number: int) -> None:
        if number < self.number:
            self.number = max(known for known in self._copies if known <= number)
            self._tables = copy.deepcopy(self._copies[self.number])
        while self.number < number:
            self._tables.take(self._entries[self.number])
            self.number += 1
            if self.number % COPY_EVERY_FACTS == 0 and self.number not in self._copies:
                self._copies[self.number] = copy.deepcopy(self._tables)


def changes_of(
    before: dict[str, NodeTables], now: dict[str, NodeTables]
) -> tuple[ItemChange, ...]:
    """Every item that differs, ordered by node, table, row and item."""
    old, new = _items(before), _items(now)
    places = sorted(place for place in old.keys() | new.keys() if old.get(place) != new.get(place))
    return tuple(ItemChange(*place, old.get(place), new.get(place)) for place in places)


def _items(nodes: dict[str, NodeTables]) -> dict[tuple[str, str, str, str], Value]:
    found: dict[tuple[str, str, str, str], Value] = {
        (name, "state", "", ""): node.state for name, node in nodes.items()
    }
    for name, node in nodes.items():
        for table, rows in node.tables.items():
            for row, items in rows.items():
                for item, value in items.items():
                    found[name, table, row, item] = value
    return found


# Tables folded from facts -------------------------------------------------------------


Value: TypeAlias = str | int
Row: TypeAlias = dict[str, Value]
Tables: TypeAlias = dict[str, dict[str, Row]]  # table: row: item: value

LOCK_US = 60_000_000  # RebalanceLockManager.REBALANCE_LOCK_MAX_LIVE_TIME
TOPICS = "topics"  # the item of a broker name that is not the address of an id
STORED = ("topics",)  # and positions of queues: kept by a store that outlives the process
ENDS = {"kill": "killed", "stop": "stopped", "power_off": "without power", "pause": "paused"}


class NodeTables(msgspec.Struct):
    """The tables of one node; *state* is "running", or how it ended."""

    role: str = ""
    state: str = "running"
    tables: Tables = {}
    keeps_store: bool = False

    def set(self, table: str, row: str, item: str, value: Value) -> None:
        """Set the value of one item."""
        self.tables.setdefault(table, {}).setdefault(row, {})[item] = value

    def drop(self, table: str, row: str, item: str | None = None) -> None:
        """Remove one item, or the whole row; does nothing if it does not exist."""
        rows = self.tables.get(table, {})
        if item is None:
            rows.pop(row, None)
        elif row in rows:
            rows[row].pop(item, None)
            if not rows[row]:
                del rows[row]

    def begin(self, role: str) -> None:
        """A process has started: clear the tables that were only in memory."""
        kept = STORED if self.keeps_store else ()
        self.tables = {name: rows for name, rows in self.tables.items() if name in kept}
        self.role, self.state = role or self.role, "running"


class ClusterTables:
    """The tables of every node after the entries passed to ``take``."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeTables] = {}
        self._expiring: dict[tuple[str, str, str, str], int] = {}  # node, table, row, item: when
        self._held: dict[int, tuple[str, ...]] = {}  # by fault id: nodes that the fault ends
        self._roles = ElectedMasters()
        self._replicas = MastersAndSlaves(self._roles)
        self._positions = QueuePositions(replicas=self._replicas)
        self._owners = QueueOwners[None]()
        self._takers = self._table()
        self._of_names = (self._replicas.table(), self._positions.table())  # see ElectedMasters

    def take(self, entry: Entry) -> None:
        """Apply one entry; entries come in the order of time."""
        self._node(entry.node)
        take = self._takers.get(type(entry.fact))
        if take is not None:
            take(entry.fact, entry)
        roles = self._roles
        for seen in roles.seen(entry) if roles.needs(type(entry.fact)) else (entry,):
            for table in self._of_names:
                if (read := table.get(type(seen.fact))) is not None:
                    read(seen.fact, seen)

    def at(self, mono_us: int) -> dict[str, NodeTables]:
        """All nodes at that time, by name, without items that have expired by then."""
        shown: dict[str, NodeTables] = {}
        for name in sorted(self.nodes):
            node = self.nodes[name]
            tables: Tables = {}
            for table, rows in node.tables.items():
                left = {
                    row: self._left(name, table, row, items, mono_us)
                    for row, items in rows.items()
                }
                tables[table] = {row: items for row, items in left.items() if items}
            tables = {table: rows for table, rows in tables.items() if rows}
            shown[name] = NodeTables(node.role, node.state, tables, node.keeps_store)
            for group, queue in self._owners.owned_by(name):
                shown[name].set("owns", group, place_of(queue), "")
        self._show_positions(shown)
        return shown

    def _show_positions(self, shown: dict[str, NodeTables]) -> None:
        """Add to the master of each queue its end, and the offsets that groups committed."""
        masters = self._roles.masters
        for queue, end in self._positions.ends.items():
            if (node := shown.get(masters.get(queue.broker, queue.broker))) is not None:
                node.set("stored", queue.topic, str(queue.queue_id), end)
        for group, offsets in self._positions.committed.items():
            for queue, offset in offsets.items():
                if (node := shown.get(masters.get(queue.broker, queue.broker))) is not None:
                    node.set("committed", f"{group} {queue.topic}", str(queue.queue_id), offset)

    def _table(self) -> Table:
        """The handler of each kind of fact."""
        return {
            NodeStarted: self._started,
            NodeStopped: self._stopped,
            NodeKilled: self._killed,
            NodePaused: self._paused,
            NodeResumed: self._resumed,
            StoreOpened: self._store_opened,
            BrokerReset: self._broker_reset,
            BrokerRoleChanged: self._role_changed,
            ActingMasterBegan: self._acting_began,
            ActingMasterEnded: self._acting_ended,
            TopicCreated: self._topic,
            TopicChanged: self._topic,
            MemberJoined: self._joined,
            MemberLeft: self._left_group,
            QueuesLocked: self._locked,
            QueuesUnlocked: self._unlocked,
            PullHeld: self._pull_held,
            PullAnswered: self._pull_answered,
            ReplyRuleSet: self._rule_set,
            ReplyRuleRemoved: self._rule_removed,
            BusyPoolSet: self._busy,
            BrokerRegistered: self._registered,
            BrokerUnregistered: self._unregistered,
            BrokerExpired: self._unregistered,
            NameServerReset: self._name_server_reset,
            RouteChanged: self._route,
            BrokerIsolated: self._isolated,
            ConsumerStarted: self._consumer_started,
            ConsumerStopped: self._consumer_stopped,
            QueuesClaimed: self._claimed,
            QueuesReleased: self._released,
            MessageConsumed: self._delivered,
            MessagePolled: self._delivered,
            SeekRequested: self._sought,
            FaultBegan: self._fault_began,
            FaultEnded: self._fault_ended,
        }

    def _left(self, node: str, table: str, row: str, items: Row, mono_us: int) -> Row:
        if table not in EXPIRING:
            return dict(items)
        expiring = self._expiring
        return {
            item: value
            for item, value in items.items()
            if expiring.get((node, table, row, item), mono_us + 1) > mono_us
        }

    # Handlers of facts --------------------------------------------------------------------

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        self._begin(entry.node, fact.role)

    def _begin(self, name: str, role: str) -> None:
        """A process has started: clear the tables and positions that were only in memory."""
        node = self._node(name)
        node.begin(role)
        self._owners.end(name)
        if not node.keeps_store and self._roles.is_master(name):
            self._positions.forget(name_of(name))

    def _stopped(self, fact: NodeStopped, entry: Entry) -> None:
        node = self._node(entry.node)
        node.state = "stopped"

    def _killed(self, fact: NodeKilled, entry: Entry) -> None:
        self._node(fact.node).state = "killed"

    def _paused(self, fact: NodePaused, entry: Entry) -> None:
        self._node(fact.node).state = "paused"

    def _resumed(self, fact: NodeResumed, entry: Entry) -> None:
        self._node(fact.node).state = "running"

    def _store_opened(self, fact: StoreOpened, entry: Entry) -> None:
        node = self._node(entry.node)
        node.keeps_store = fact.outlives_process

    def _broker_reset(self, fact: BrokerReset, entry: Entry) -> None:
        node = self._node(entry.node)
        members = node.tables.get("members", {})
        topics = node.tables.get("topics", {})
        node.tables = {
            "members": {group: row for group, row in members.items() if group in fact.kept_groups},
            "topics": {topic: row for topic, row in topics.items() if topic in fact.kept_topics},
        }
        self._positions.forget(entry.node)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        node = self._node(entry.node)
        node.tables["role"] = {fact.role: {"epoch": fact.master_epoch, "id": fact.broker_id}}

    def _acting_began(self, fact: ActingMasterBegan, entry: Entry) -> None:
        self._node(entry.node).tables["role"] = {"acting master": {"id": fact.broker_id}}

    def _acting_ended(self, fact: ActingMasterEnded, entry: Entry) -> None:
        self._node(entry.node).tables["role"] = {"slave": {"id": fact.broker_id}}

    def _topic(self, fact: TopicCreated | TopicChanged, entry: Entry) -> None:
        node = self._node(entry.node)
        node.set("topics", fact.topic, "read", fact.read_queue_count)
        node.set("topics", fact.topic, "write", fact.write_queue_count)
        node.set("topics", fact.topic, "perm", fact.perm)

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        node = self._node(entry.node)
        node.set("members", fact.group, fact.client, fact.peer)

    def _left_group(self, fact: MemberLeft, entry: Entry) -> None:
        node = self._node(entry.node)
        node.drop("members", fact.group, fact.client)

    def _locked(self, fact: QueuesLocked, entry: Entry) -> None:
        node = self._node(entry.node)
        for queue in fact.granted:
            row, item = f"{fact.group} {queue.topic}", str(queue.queue_id)
            node.set("locks", row, item, fact.client)
            self._expiring[entry.node, "locks", row, item] = entry.mono_us + LOCK_US

    def _unlocked(self, fact: QueuesUnlocked, entry: Entry) -> None:
        node = self._node(entry.node)
        for queue in fact.queues:
            row, item = f"{fact.group} {queue.topic}", str(queue.queue_id)
            if node.tables.get("locks", {}).get(row, {}).get(item) == fact.client:
                node.drop("locks", row, item)

    def _pull_held(self, fact: PullHeld, entry: Entry) -> None:
        node = self._node(entry.node)
        row = f"{fact.group} {fact.queue.topic}"
        node.set("held pulls", row, str(fact.queue.queue_id), fact.offset)

    def _pull_answered(self, fact: PullAnswered, entry: Entry) -> None:
        node = self._node(entry.node)
        row = f"{fact.group} {fact.queue.topic}"
        node.drop("held pulls", row, str(fact.queue.queue_id))

    def _rule_set(self, fact: ReplyRuleSet, entry: Entry) -> None:
        node = self._node(entry.node)
        node.set("reply rules", str(fact.rule_id), "rule", fact.rule)

    def _rule_removed(self, fact: ReplyRuleRemoved, entry: Entry) -> None:
        node = self._node(entry.node)
        node.drop("reply rules", str(fact.rule_id))

    def _busy(self, fact: BusyPoolSet, entry: Entry) -> None:
        node = self._node(entry.node)
        node.drop("busy pools", fact.pool)
        if fact.service_us:
            node.set("busy pools", fact.pool, "threads", fact.threads)
            node.set("busy pools", fact.pool, "service_us", fact.service_us)

    # NameServers

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        """Addresses by id; the topics are those of the smallest id.

        Upstream: RouteInfoManager.registerBroker, which removes an address under another id first.
        """
        node = self._node(entry.node)
        rows = node.tables.setdefault("brokers", {})
        row = rows[fact.broker] = _without(rows.get(fact.broker, {}), fact.address)
        row[str(fact.broker_id)] = fact.address
        if fact.broker_id == min(int(name) for name in row if name != TOPICS):
            row[TOPICS] = fact.topic_count

    def _unregistered(self, fact: BrokerUnregistered | BrokerExpired, entry: Entry) -> None:
        node = self._node(entry.node)
        row = _without(node.tables.get("brokers", {}).get(fact.broker, {}), fact.address)
        node.drop("brokers", fact.broker)
        if row.keys() - {TOPICS}:
            node.tables["brokers"][fact.broker] = row

    def _name_server_reset(self, fact: NameServerReset, entry: Entry) -> None:
        node = self._node(entry.node)
        for row in node.tables.get("brokers", {}).values():
            row[TOPICS] = 0

    # Clients

    def _route(self, fact: RouteChanged, entry: Entry) -> None:
        node = self._node(entry.node)
        node.drop("routes", fact.topic)
        for broker in fact.brokers:
            node.set("routes", fact.topic, broker, "")

    def _isolated(self, fact: BrokerIsolated, entry: Entry) -> None:
        node = self._node(entry.node)
        node.set("avoided brokers", fact.broker, "for_ms", fact.for_ms)
        until_us = entry.mono_us + fact.for_ms * 1_000
        self._expiring[entry.node, "avoided brokers", fact.broker, "for_ms"] = until_us

    def _consumer_started(self, fact: ConsumerStarted, entry: Entry) -> None:
        node = self._node(entry.node)
        if node.state != "running":
            self._begin(entry.node, "")
        node.role = node.role or "consumer"
        node.set("groups", fact.group, fact.client, fact.consumer_kind)

    def _consumer_stopped(self, fact: ConsumerStopped, entry: Entry) -> None:
        self._node(entry.node).drop("groups", fact.group)
        self._owners.end(entry.node, fact.group)

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        for queue in fact.queues:
            self._owners.claim(entry.node, fact.group, queue, None)

    def _released(self, fact: QueuesReleased, entry: Entry) -> None:
        for queue in fact.queues:
            self._owners.release(entry.node, fact.group, queue)

    def _delivered(self, fact: MessageConsumed | MessagePolled, entry: Entry) -> None:
        node = self._node(entry.node)
        node.set("delivered", fact.group, place_of(fact.queue), fact.offset + 1)

    def _sought(self, fact: SeekRequested, entry: Entry) -> None:
        node = self._node(entry.node)
        node.set("delivered", fact.group, place_of(fact.queue), fact.offset)

    # Faults

    def _fault_began(self, fact: FaultBegan, entry: Entry) -> None:
        node = self._node(entry.node)
        known = msgspec.json.decode(fact.fault, type=dict[str, Any])
        word = str(known.pop("fault", "?"))
        node.set("faults", f"{fact.fault_id} {word}", "nodes", " ".join(fact.nodes))
        for name, value in known.items():
            shown = value if isinstance(value, int | str) else msgspec.json.encode(value).decode()
            node.set("faults", f"{fact.fault_id} {word}", name, shown)
        if word in ENDS:
            self._held[fact.fault_id] = fact.nodes
            for name in fact.nodes:
                self._node(name).state = ENDS[word]

    def _fault_ended(self, fact: FaultEnded, entry: Entry) -> None:
        node = self._node(entry.node)
        for row in list(node.tables.get("faults", {})):
            if row.split(" ")[0] == str(fact.fault_id):
                node.drop("faults", row)
        for name in self._held.pop(fact.fault_id, ()):
            if self._node(name).state == "paused":
                self._node(name).state = "running"

    def _node(self, name: str) -> NodeTables:
        return self.nodes.setdefault(name, NodeTables())


def _without(row: Row, address: str) -> Row:
    """A broker name's *row* without the id that has *address*."""
    return {item: value for item, value in row.items() if value != address}


EXPIRING = frozenset({"locks", "avoided brokers"})
