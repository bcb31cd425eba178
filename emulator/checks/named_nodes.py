"""Nodes that others name, and that have no journal: what they did is not known.

A broker is named by clients that have a route to it and by NameServers, a client by the brokers
that it joined and by the other members of its group, a NameServer by the brokers it registered,
and a producer by the plan of a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import repeat

from emulator.checks.folding import Table
from emulator.checks.scene import Scene
from emulator.checks.violation import Gap
from emulator.facts import (
    BrokerRegistered,
    ConsumerStarted,
    MemberJoined,
    MessageSent,
    NodeStarted,
    OffsetCommitted,
    RebalancePassed,
    RegisteredWith,
    RouteChanged,
)
from emulator.journal import Entry

SETTLING_US = 5_000_000  # who is first named so late may not have noted anything yet
MASTER = 0
CLIENTS_MAX = 50  # without a journal that are named; more are counted


class NamedNodes:
    """Who is named, first by which entry.  *expects_clients*: clients have journals, too."""

    def __init__(self, scene: Scene, *, expects_clients: bool) -> None:
        self._scene = scene
        self._expects_clients = expects_clients
        self.nodes_of: dict[str, str] = {}  # of client ids
        self._brokers: dict[str, Entry] = {}
        self._sent_to: set[str] = set()  # of these
        self._clients: dict[str, Entry] = {}
        self._groups: dict[str, Entry] = {}
        self._name_servers: set[str] = set()  # nodes that are one
        self._accepted_by = 0  # so many NameServers, at most, took a registration
        self._registered_with: Entry | None = None

    def table(self) -> Table:
        """What it reads."""
        return {
            RouteChanged: self._route_changed,
            MessageSent: self._sent,
            BrokerRegistered: self._registered,
            NodeStarted: self._node_started,
            RegisteredWith: self._has_registered,
            RebalancePassed: self._passed,
            MemberJoined: self._joined,
            OffsetCommitted: self._committed,
            ConsumerStarted: self._started,
        }

    def without_journal(self, known: Collection[str]) -> Iterator[Gap]:
        """What is not known for want of journals; there are those of the nodes *known*."""
        yield from self._servers(known)
        # A program of a user's own has no journal.
        if self._expects_clients and not self._scene.plan.get("programs"):
            yield from self._members()
            for producer in self._producers():
                if producer not in known:
                    text = f"{producer} has no journal, and the plan of the run names it"
                    yield Gap(text, 0, "clients")

    # Who is missing -----------------------------------------------------------------------

    def _servers(self, known: Collection[str]) -> Iterator[Gap]:
        for broker, entry in self._brokers.items():
            if broker not in known and self._has_settled(entry):
                # One that no client has heard of has nothing to do with what clients did.
                is_unused = isinstance(entry.fact, BrokerRegistered)
                text = f"broker {broker} has no journal, and {_names(entry)} it"
                yield Gap(text, 0, "none" if is_unused else "all")
        missing = self._accepted_by - len(self._name_servers)
        if missing > 0 and self._registered_with is not None:
            text = f"{missing} of {self._accepted_by} NameServers have no journal, and "
            yield Gap(f"{text}{_names(self._registered_with)} them", 0)

    def _members(self) -> Iterator[Gap]:
        missing = [
            (client, entry)
            for client, entry in self._clients.items()
            if client not in self.nodes_of and self._has_settled(entry)
        ]
        for client, entry in missing[:CLIENTS_MAX]:
            # Brokers note who joins: without that nobody knows more of it than its name.
            is_known = isinstance(entry.fact, MemberJoined)
            text = f"client {client} has no journal, and {_names(entry)} it"
            yield Gap(text, 0, "clients" if is_known else "none")
        if len(missing) > CLIENTS_MAX:
            text = f"{len(missing) - CLIENTS_MAX:,} more clients have no journal"
            yield Gap(text, 0, "clients")
        for group, entry in self._groups.items():
            if not missing and group not in self._scene.seats and self._has_settled(entry):
                text = f"no member of group {group} has a journal, and {_names(entry)} the group"
                yield Gap(text, 0, "clients")

    def _producers(self) -> Iterator[str]:
        """Nodes that send from the beginning of a run that came to its end, by its plan."""
        ended = self._scene.run_ended
        if ended is None or ended.reason != "finished":
            return
        begin_ms = [
            from_ms
            for load in self._scene.plan.get("load", ())
            for from_ms in repeat(load.get("from_ms", 0), load.get("producers", 1))
        ]
        for number, from_ms in enumerate(begin_ms, 1):
            if from_ms == 0:
                yield f"producer-{number}"

    def _has_settled(self, entry: Entry) -> bool:
        return self._scene.now_us - entry.mono_us >= SETTLING_US

    # Who is named -------------------------------------------------------------------------

    def _route_changed(self, fact: RouteChanged, entry: Entry) -> None:
        for broker in fact.brokers:
            self._used(broker, entry)

    def _sent(self, fact: MessageSent, entry: Entry) -> None:
        broker = fact.queue.broker
        if broker not in self._sent_to:
            self._sent_to.add(broker)
            self._used(broker, entry)

    def _used(self, broker: str, entry: Entry) -> None:
        known = self._brokers.get(broker)
        if known is None or isinstance(known.fact, BrokerRegistered):
            self._brokers[broker] = entry

    def _registered(self, fact: BrokerRegistered, entry: Entry) -> None:
        self._name_servers.add(entry.node)
        if fact.broker_id == MASTER:
            self._brokers.setdefault(fact.broker, entry)

    def _node_started(self, fact: NodeStarted, entry: Entry) -> None:
        if fact.role == "nameserver":
            self._name_servers.add(entry.node)

    def _has_registered(self, fact: RegisteredWith, entry: Entry) -> None:
        if len(fact.accepted) > self._accepted_by:
            self._accepted_by, self._registered_with = len(fact.accepted), entry

    def _passed(self, fact: RebalancePassed, entry: Entry) -> None:
        for client in fact.members:
            self._clients.setdefault(client, entry)

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        known = self._clients.get(fact.client)
        if known is None or not isinstance(known.fact, MemberJoined):
            self._clients[fact.client] = entry

    def _committed(self, fact: OffsetCommitted, entry: Entry) -> None:
        self._groups.setdefault(fact.group, entry)

    def _started(self, fact: ConsumerStarted, entry: Entry) -> None:
        self.nodes_of[fact.client] = entry.node


def _names(entry: Entry) -> str:
    return f"{entry.node} names ({type(entry.fact).__name__}, number {entry.seq})"
