"""Registration of brokers: renewed every 30 s, and removed when the broker ends."""

from __future__ import annotations

from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.disturbances import CONNECTION_CLOSING, PROCESS_ENDING
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    BrokerExpired,
    BrokerRegistered,
    BrokerRoleChanged,
    NodeStarted,
    RouteChanged,
    SendAttempted,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

REGISTER_US = 30_000_000  # BrokerConfig.registerNameServerPeriod
LATE_US = 12_000_000  # registrations wait for NameServers that do not answer: 6 s, 24 s since 5.0
SILENT_MS_MAX = 120_000  # brokerChannelExpiredTime
SILENT_ACTING_MS_MAX = 10_000  # brokerNotActiveTimeoutMillis, sent if slaves may act as masters
ROUTE_US = 30_000_000 + 5_000_000  # pollNameServerInterval, and a call in flight
SILENT_US = 120_000_000 + 10_000_000  # brokerChannelExpiredTime, and until NameServers look
CLOSED_US = 1_000_000  # until NameServers notice, and answers in flight have arrived


class RegistrationsCome(Monitor):
    """Server invariants 11 and 12: BrokerController.start, registerBrokerAll."""

    name = "registrations_come"
    rule = "a broker that runs registers with every NameServer every 30 s"
    needs = (BrokerRegistered,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._last: dict[tuple[str, str], EntryKey] = {}  # NameServer, broker
        self._name_servers: dict[str, EntryKey] = {}  # when each started
        self._brokers: dict[str, EntryKey] = {}

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            NodeStarted: self._started,
            BrokerRegistered: self._registered,
            BrokerRoleChanged: self._role_changed,
        }

    def end(self) -> None:
        """Check brokers whose next registration had not come when the journal ended."""
        for name_server in self._name_servers:
            for broker in self._brokers:
                if self.cluster.last is not None and not self.cluster.topics.is_down(broker):
                    self._check(name_server, broker, self.cluster.last)

    def _started(self, fact: NodeStarted, entry: Entry) -> None:
        if fact.role == "nameserver":
            self._name_servers[entry.node] = key_of(entry)
        elif fact.role == "broker":
            self._brokers[entry.node] = key_of(entry)

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        node = f"{fact.broker}-{fact.broker_id}" if fact.broker_id else fact.broker
        if fact.broker_id and self.cluster.replicas.may_move(fact.broker):
            node = self.cluster.roles.seen_at(fact.address)  # its id tells nothing about its name
        self._check(entry.node, node, entry)
        self._last[entry.node, node] = key_of(entry)

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> None:
        """The node that was elected has another name, and begins to register as the master."""
        if (move := self.cluster.roles.move) is not None:
            move.rekey(self._brokers)
            self._last = {
                (name_server, move.after(node)): key
                for (name_server, node), key in self._last.items()
                if node != move.slave
            }

    def _check(self, name_server: str, broker: str, entry: Entry) -> None:
        known = [
            self._last.get((name_server, broker)),
            self._name_servers.get(name_server),
            self._brokers.get(broker),
        ]
        since = max((each for each in known if each is not None), default=None)
        if since is None or any(each is None for each in known[1:]):
            return
        others = set(self._name_servers)
        silent_us = entry.mono_us - since.mono_us
        quiet_us = self.cluster.undisturbed_us({broker, *others}, since.mono_us, entry.mono_us)
        is_late = silent_us > REGISTER_US + LATE_US and not self._is_set()
        if is_late and quiet_us <= REGISTER_US + LATE_US:
            self.count_excused()
            return
        self.count_tried(quiet_us == silent_us)
        if is_late:
            self.report_violation(
                f"{broker} did not register with {name_server} for {silent_us / 1e6:.1f} s",
                since,
                key_of(entry),
                node=broker,
            )

    def _is_set(self) -> bool:
        cluster = self.cluster.plan.get("cluster", {})
        of_nodes = cluster.get("settings_of", {}).values()
        return any(
            "register_interval_ms" in settings
            for settings in (cluster.get("broker_settings", {}), *of_nodes)
        )


class ExpiriesWait(Monitor):
    """Server invariant 4: RouteInfoManager.scanNotActiveBroker."""

    name = "expiries_wait"
    rule = (
        "a NameServer drops a silent broker only after 120 s, or after 10 s if its slaves may act "
        "as masters"
    )
    needs = (BrokerRegistered,)

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {BrokerExpired: self._expired, BrokerRegistered: self._registered}

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        """Count a registration: it may expire."""
        self.tried += 1

    def _expired(self, fact: BrokerExpired, entry: Entry) -> None:
        settings = self.cluster.plan.get("cluster", {}).get("name_server_settings", {})
        silent_ms_max = SILENT_ACTING_MS_MAX if self.cluster.slaves_may_act else SILENT_MS_MAX
        if fact.silent_for_ms < silent_ms_max and not settings:
            self.report_violation(
                f"{entry.node} dropped {fact.broker} after {fact.silent_for_ms / 1e3:.1f} s of "
                "silence",
                entry,
            )


class EndedBrokersLeaveRoutes(Monitor):
    """Client invariant 58: RouteInfoManager.onChannelDestroy, and the route poll of producers."""

    name = "dead_brokers_leave"
    rule = (
        "a broker whose process has ended leaves the routes with its connection: no client gets a "
        "route with it a second later, and producers send nothing to it after their next route "
        "poll, 30 s; without power it leaves them after 120 s of silence (client invariant 58)"
    )
    invariants = (58,)
    needs = (SendAttempted, RouteChanged)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._reported: set[tuple[str, str, int]] = set()

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {SendAttempted: self._attempted, RouteChanged: self._route_changed}

    def _route_changed(self, fact: RouteChanged, entry: Entry) -> None:
        """A route has no broker whose connection the NameServer saw close."""
        if not self.cluster.faults:
            return
        for broker in filter(self.cluster.is_gone, fact.brokers):  # restarted ones are back
            if self._has_slave(broker, entry):
                self.count_excused()  # the name stays in routes as long as a node of it does
                continue
            for fault in self.cluster.held_by(broker):
                dead_us = entry.mono_us - fault.began_us
                if fault.word not in CONNECTION_CLOSING or dead_us <= CLOSED_US:
                    continue
                self.count_tried()
                self._check_route(fact, broker, fault.began_us, entry)

    def _has_slave(self, broker: str, entry: Entry) -> bool:
        """Whether a slave of *broker* may be in routes: it lives, or died not long enough ago."""
        master = self.cluster.replicas.of(broker)
        if master is None:
            return False
        since_us = entry.mono_us - SILENT_US - ROUTE_US
        alive = not all(map(self.cluster.is_gone, master.slaves))
        return alive or self.cluster.touched(master.slaves, since_us, entry.mono_us)

    def _check_route(self, fact: RouteChanged, broker: str, ended_us: int, entry: Entry) -> None:
        name_servers = self.cluster.topics.name_servers
        others = (
            fault
            for fault in self.cluster.all_faults
            if fault.word not in CONNECTION_CLOSING or broker not in fault.nodes
        )
        is_touched = any(
            fault.held(ended_us - CLOSED_US, entry.mono_us)
            and not {broker, entry.node, *name_servers}.isdisjoint(fault.nodes)
            for fault in others
        )
        if is_touched:
            self.count_excused()
            return
        self.report_violation(
            f"{entry.node} got a route of {fact.topic} with {broker}, whose process ended "
            f"{(entry.mono_us - ended_us) / 1e6:.1f} s before",
            entry,
        )

    def _attempted(self, fact: SendAttempted, entry: Entry) -> None:
        if not self.cluster.faults or fact.outcome == "SEND_OK":
            return
        broker = fact.queue.broker
        for fault in self.cluster.held_by(broker):
            if fault.word not in PROCESS_ENDING:
                continue
            self.count_tried()
            began_us = entry.mono_us - fact.took_ms * 1_000
            dead_us = began_us - fault.began_us
            nodes = {entry.node, *self.cluster.topics.name_servers}
            known = entry.node, broker, fault.began_us
            is_noticed = fault.word in CONNECTION_CLOSING
            if dead_us <= _noticed_us(is_noticed=is_noticed) or known in self._reported:
                continue
            is_touched = self.cluster.touched(nodes, fault.began_us - ROUTE_US, entry.mono_us)
            within_us = _noticed_us(is_noticed=is_noticed and not is_touched)
            if self.cluster.undisturbed_us(nodes, fault.began_us, entry.mono_us) <= within_us:
                self.count_excused()
            else:
                self._reported.add(known)
                self.report_violation(
                    f"{entry.node} still sends to {broker}, whose process ended "
                    f"{dead_us / 1e6:.1f} s before",
                    entry,
                )


def _noticed_us(*, is_noticed: bool) -> int:
    """Until producers know of an end; nobody notices the end of a machine without power."""
    return ROUTE_US if is_noticed else ROUTE_US + SILENT_US
