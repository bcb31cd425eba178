"""A client instance towards servers: heartbeats, unregistering, routes while none answers."""

from __future__ import annotations

from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.state.broker_roles import name_of
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.cluster_state import MissingRoute
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerRoleChanged,
    BrokerUnregistered,
    ConnectionClosed,
    ConsumerStarted,
    HeartbeatReceived,
    MemberJoined,
    MemberLeft,
    NodeStarted,
    RequestReceived,
    RouteChanged,
    RouteQueriesFailing,
    RouteQueriesRecovered,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.codes import RequestCode

HEARTBEAT_US = 30_000_000  # heartbeatBrokerInterval
ROUTES_US = 30_000_000  # pollNameServerInterval: until a client knows of a broker again
SILENT_US = 120_000_000 + 10_000_000  # channelExpiredTimeout, and until brokers look
LATE_US = 10_000_000  # for calls to three brokers that do not answer (client invariant 2)


class HeartbeatsCome(Monitor):
    """Client invariant 1, from facts of brokers: each connection with members has heartbeats."""

    name = "heartbeats_come"
    rule = "a member's heartbeats come every 30 s (client invariant 1)"
    invariants = (1,)
    servers_suffice = True
    needs = (HeartbeatReceived, RequestReceived)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._beats: dict[tuple[str, str], EntryKey] = {}  # broker, address of a member
        self._noting_brokers: set[str] = set()  # brokers that note heartbeats
        self._clients: dict[tuple[str, str], str] = {}  # broker, address: client id
        self._unrouted: dict[str, MissingRoute] = {}  # brokers that a NameServer lacked last
        self._registered_ever: set[str] = set()

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            NodeStarted: self._started,
            MemberJoined: self._joined,
            MemberLeft: self._left,
            ConnectionClosed: self._closed,
            RequestReceived: self._received,
            HeartbeatReceived: self._beats_again,
            BrokerRoleChanged: self._role_changed,
            BrokerRegistered: self._registered,
            BrokerUnregistered: self._unregistered,
            BrokerExpired: self._unregistered,
        }

    def end(self) -> None:
        """Check members whose next heartbeat had not come when the journal ended."""
        for known in list(self._beats):
            if self.cluster.last is not None:  # never None if a member is known
                self._check(known, self.cluster.last)

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        if fact.role == "nameserver":  # it knows no broker before that registers again
            for broker in self._registered_ever:
                self._unrouted[broker] = MissingRoute(entry.mono_us)
        if self.cluster.roles.move is None:  # a new process has no connections
            for known in [known for known in self._beats if known[0] == entry.node]:
                del self._beats[known]

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        key = EntryKey(entry.mono_us, entry.node, entry.seq)
        self._beats.setdefault((entry.node, fact.peer), key)
        self._clients[entry.node, fact.peer] = fact.client

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        self._check((entry.node, fact.peer), entry)
        self._beats.pop((entry.node, fact.peer), None)

    def _closed(self, fact: ConnectionClosed, entry: Entry) -> None:
        self._beats.pop((entry.node, fact.peer), None)

    def _received(self, fact: RequestReceived, entry: Entry) -> None:
        self._note_broker(entry)
        if fact.code == RequestCode.HEART_BEAT:
            self._beats_again(fact, entry)

    def _beats_again(self, fact: RequestReceived | HeartbeatReceived, entry: Entry) -> None:
        self._note_broker(entry)
        known = entry.node, fact.peer
        if known in self._beats:
            self._check(known, entry)
            self._beats[known] = key_of(entry)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """Forget the connections of the former master: which of them still are is not known."""
        if (move := self.cluster.roles.move) is not None:
            for known in [known for known in self._beats if known[0] == move.name]:
                del self._beats[known]
            move.rekey(self._beats)
            move.rekey(self._clients)
            move.rekey(self._unrouted)
            self._registered_ever = set(map(move.after, self._registered_ever))
            self._noting_brokers = set(map(move.after, self._noting_brokers))

    def _unregistered(self, fact: BrokerUnregistered | BrokerExpired, entry: Entry) -> None:
        broker = self.cluster.roles.seen_at(fact.address)
        self._unrouted[broker] = MissingRoute(entry.mono_us)

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        broker = self.cluster.roles.seen_at(fact.address)
        self._registered_ever.add(broker)
        missing = self._unrouted.get(broker)
        if fact.first and missing is not None and missing.until_us is None:
            missing.until_us = entry.mono_us

    def _note_broker(self, entry: Entry) -> None:
        """A broker notes heartbeats from now on: earlier ones are not in the journal."""
        if entry.node not in self._noting_brokers:
            self._noting_brokers.add(entry.node)
            mine = (known for known in self._beats if known[0] == entry.node)
            self._beats.update(dict.fromkeys(mine, key_of(entry)))

    def _check(self, known: tuple[str, str], entry: Entry) -> None:
        before = self._beats.get(known)
        if before is None or known[0] not in self._noting_brokers:
            return
        self.count_tried()
        silent_us = entry.mono_us - before.mono_us
        if silent_us <= HEARTBEAT_US + LATE_US:
            return
        if self._is_touched(known, before, entry):
            self.count_excused()
        else:
            self.report_violation(
                f"{known[0]} got no heartbeat of {known[1]} for {silent_us / 1e6:.1f} s",
                before,
                entry,
                node=known[0],
            )

    def _is_touched(self, known: tuple[str, str], before: EntryKey, entry: Entry) -> bool:
        """Whether a fault of the broker or of the member's node may have stopped the heartbeat.

        Calls to other brokers that do not answer delay it by ``LATE_US`` at most.  After the fault
        the next heartbeat comes, unless the member has ended or reconnected.
        """
        broker, client = known[0], self._clients.get(known, "")
        since_us = before.mono_us - HEARTBEAT_US
        consumers = [
            consumer
            for consumers in self.cluster.consumers.values()
            for consumer in consumers
            if consumer.started.client == client
        ]
        if not consumers:  # no fact names the client's node, or shows its routes
            missing = self._unrouted.get(broker)
            if missing is not None and _was_absent(missing, before, entry, ROUTES_US):
                return True
            return any(each.held(since_us, entry.mono_us) for each in self.cluster.all_faults)
        nodes = {broker, *(consumer.node for consumer in consumers)}
        if any(self._had_no_route(consumer.node, broker, before, entry) for consumer in consumers):
            return True
        if not self.cluster.touched(nodes, since_us, entry.mono_us):
            return False
        others = (each for each, name in self._clients.items() if name == client)
        if any(at == broker and (at, peer) != known for at, peer in others):
            return True
        quiet_us = self.cluster.undisturbed_us(nodes, since_us, entry.mono_us)
        is_over = not any(consumer.is_running for consumer in consumers)
        return is_over or quiet_us <= 2 * HEARTBEAT_US + LATE_US

    def _had_no_route(self, node: str, broker: str, before: EntryKey, entry: Entry) -> bool:
        """Whether *broker* was in no route of the client, which then sends it no heartbeat.

        Upstream: MQClientInstance.cleanOfflineBroker, before each round of heartbeats.
        """
        name = name_of(broker)
        missing_route = self.cluster.missing_route(node, name)  # also of its slaves
        if missing_route is not None and _was_absent(missing_route, before, entry):
            return True
        # A route without the slave only is no fact of the client: it polls again after ROUTES_US.
        missing_slave = None if broker == name else self._unrouted.get(broker)
        return missing_slave is not None and _was_absent(missing_slave, before, entry, ROUTES_US)


def _was_absent(missing: MissingRoute, before: EntryKey, entry: Entry, late_us: int = 0) -> bool:
    """Whether routes lacked a broker between the two, so that no heartbeat was due again."""
    until_us = entry.mono_us if missing.until_us is None else missing.until_us
    since_us = entry.mono_us - until_us
    return before.mono_us <= until_us and since_us <= HEARTBEAT_US + LATE_US + late_us


class MembersUnregister(Monitor):
    """Client invariant 6.  A member that unregisters nowhere was killed or cancelled."""

    name = "members_unregister"
    rule = "a consumer that is shut down unregisters at every broker (client invariant 6)"
    invariants = (6,)
    servers_suffice = True
    needs = (MemberLeft,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._left_in_order: dict[tuple[str, str], EntryKey] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {MemberJoined: self._joined, MemberLeft: self._left}

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        self._left_in_order.pop((fact.group, fact.client), None)

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        known = fact.group, fact.client
        if fact.reason == "unregistered":
            self.count_tried()
            self._left_in_order[known] = EntryKey(entry.mono_us, entry.node, entry.seq)
            return
        elsewhere = self._left_in_order.get(known)
        if elsewhere is None:
            return
        if self._is_touched(fact, entry) or self._knew_no_address(fact, elsewhere, entry.node):
            self.count_excused()
            return
        self.report_violation(
            f"{fact.client} unregistered from {fact.group} at {elsewhere.node}, and {entry.node} "
            f"lost it as {fact.reason!r}",
            elsewhere,
            entry,
        )

    def _is_touched(self, fact: MemberLeft, entry: Entry) -> bool:
        """Whether a fault may have stopped it unregistering there, or closing a connection."""
        nodes = {entry.node}
        nodes.update(
            consumer.node
            for consumer in self.cluster.consumers.get(fact.group, ())
            if consumer.started.client == fact.client
        )
        since_us = entry.mono_us - SILENT_US - HEARTBEAT_US
        return any(
            fault.held(since_us, entry.mono_us) and not nodes.isdisjoint(fault.nodes)
            for fault in self.cluster.all_faults
        )

    def _knew_no_address(self, fact: MemberLeft, elsewhere: EntryKey, broker: str) -> bool:
        """Whether its routes lacked *broker* when it unregistered, so it had dropped the address.

        Upstream: MQClientInstance.unregisterClient goes over the addresses that
        cleanOfflineBroker has left; the other connections are closed without a request.
        Facts name the brokers of a route, not their slaves: those may always have been missing.
        """
        if broker in self.cluster.replicas.slaves:
            return True
        for consumer in self.cluster.consumers.get(fact.group, ()):
            if consumer.started.client == fact.client:
                missing_route = self.cluster.missing_route(consumer.node, broker)
                if missing_route is not None and missing_route.held(elsewhere.mono_us):
                    return True
        return False


class RoutesOutliveNameServers(Monitor):
    """Client invariants 7 and 8."""

    name = "routes_outlive_name_servers"
    rule = (
        "while no NameServer answers no route changes (client invariant 7), and a route that was "
        "known never becomes empty (8)"
    )
    invariants = (7, 8)
    needs = (RouteChanged,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._failing: dict[str, EntryKey] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            RouteChanged: self._changed,
            RouteQueriesFailing: self._fail,
            RouteQueriesRecovered: self._recovered,
            ConsumerStarted: self._recovered,
        }

    def _fail(self, fact: RouteQueriesFailing, entry: Entry) -> None:
        self.count_tried()
        self._failing[entry.node] = EntryKey(entry.mono_us, entry.node, entry.seq)

    def _recovered(self, fact: RouteQueriesRecovered | ConsumerStarted, entry: Entry) -> None:
        self._failing.pop(entry.node, None)

    def _changed(self, fact: RouteChanged, entry: Entry) -> None:
        failing = self._failing.get(entry.node)
        if failing is not None:
            self.report_violation(
                f"{entry.node} changed its route of {fact.topic} while no NameServer answered it",
                failing,
                entry,
            )
        if not fact.brokers:
            self.report_violation(f"{entry.node} has no broker for {fact.topic} any more", entry)
