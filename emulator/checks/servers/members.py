"""Members of groups, from facts of brokers: the client of a request, and settled groups.

A client has a connection to each broker, so an address identifies a client at one broker, and
its client id everywhere.  While members join and leave queues move, and two members may pull one
queue for a moment; a group is settled when a client had time for its next pass.

Clients send heartbeats to slaves too.  So a slave that is elected, or acts as the master, knows
the members already, and no MemberJoined follows.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_emulator.checks.monitors.monitor import Monitor
from rocketmq_emulator.checks.monitors.pulls import PUSH
from rocketmq_emulator.checks.state.broker_roles import Move
from rocketmq_emulator.checks.state.checker import CheckerContext
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import (
    ActingMasterBegan,
    BrokerReset,
    GroupOffsetMoved,
    MemberJoined,
    MemberLeft,
    NodeStarted,
    QueuesReleased,
    TopicChanged,
    TopicCreated,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

SILENT_US = 180_000_000  # until all servers and clients notice a silent end
SETTLE_US = 30_000_000  # rebalanceInterval, and a call's three seconds at three brokers


class GroupMember(NamedTuple):
    """A consumer at one broker; ``joined`` is its MemberJoined."""

    group: str
    client: str
    broker: str
    peer: str
    broadcasts: bool
    joined: EntryKey


class MemberMonitor(Monitor):
    """Knows the push consumers of every group at every broker."""

    servers_suffice = True

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._members: dict[tuple[str, str, str], GroupMember] = {}  # broker, group, peer
        self._changed_us: dict[str, int] = {}  # by group, or "": of all
        self._started_us: dict[str, int] = {}  # by broker

    def table(self) -> Table:
        """Return the handlers of the facts about members; subclasses add theirs."""
        return {
            MemberJoined: self._joined,
            MemberLeft: self._left,
            QueuesReleased: self._moved,
            GroupOffsetMoved: self._moved,
            TopicCreated: self._all_change,
            TopicChanged: self._all_change,
            BrokerReset: self._all_change,
            NodeStarted: self._starts,
            ActingMasterBegan: self._acting_began,
        }

    def forget(self, group: str) -> None:
        """Drop what was seen of queues of *group*; "" stands for any group."""

    def move(self, move: Move) -> None:
        """Another node is the master of a broker name: its connections stay."""
        move.rekey(self._members)
        for known, member in self._members.items():
            self._members[known] = member._replace(broker=known[0])

    def member(self, group: str, broker: str, peer: str) -> GroupMember | None:
        """The push consumer whose request came from *peer*; None if *peer* is none."""
        return self._members.get((broker, group, peer))

    def members_at(self, group: str, broker: str) -> list[GroupMember]:
        """All push consumers of *group* at *broker*."""
        return [each for (at, of, _), each in self._members.items() if (at, of) == (broker, group)]

    def clients(self, group: str) -> set[str]:
        """The client ids of the group's push consumers at all brokers."""
        return {each.client for each in self._members.values() if each.group == group}

    def changed_us(self, group: str) -> int:
        """When a member of *group* joined or left, or all groups changed, last."""
        known_us = [self._changed_us[name] for name in (group, "") if name in self._changed_us]
        return max(known_us, default=-SETTLE_US)

    def is_settled(self, group: str, since_us: int) -> bool:
        """Whether nothing changed for so long before *since_us* that no queue moves."""
        changed_us = self.changed_us(group)
        last_us = max(changed_us, since_us - SILENT_US)
        return since_us - changed_us >= SETTLE_US and not self.cluster.is_disturbed_since(last_us)

    def is_disturbed(self, now_us: int) -> bool:
        """Whether any fault holds or ended recently.  Faults do not name clients' nodes here."""
        return self.cluster.is_disturbed_since(now_us - SILENT_US)

    def started_us(self, broker: str) -> int:
        """When *broker* started, or began to serve as a master: it has no locks then.

        ``-SETTLE_US`` if the journal has no start.
        """
        return self._started_us.get(broker, -SETTLE_US)

    # Handlers -----------------------------------------------------------------------------

    def _joined(self, fact: MemberJoined, entry: Entry) -> None:
        self._change(fact.group, entry)
        if fact.consume_type == PUSH:
            self._members[entry.node, fact.group, fact.peer] = GroupMember(
                fact.group,
                fact.client,
                entry.node,
                fact.peer,
                fact.message_model == "BROADCASTING",
                EntryKey(entry.mono_us, entry.node, entry.seq),
            )

    def _left(self, fact: MemberLeft, entry: Entry) -> None:
        self._change(fact.group, entry)
        self._members.pop((entry.node, fact.group, fact.peer), None)

    def _moved(self, fact: QueuesReleased | GroupOffsetMoved, entry: Entry) -> None:
        self._change(fact.group, entry)
        self.forget(fact.group)

    def _all_change(self, fact: TopicCreated | TopicChanged | BrokerReset, entry: Entry) -> None:
        self._change("", entry)
        if isinstance(fact, BrokerReset):
            self.forget("")

    def _starts(self, fact: NodeStarted, entry: Entry) -> None:
        """A restarted broker has no members, an elected slave those that it has as a slave."""
        self._started_us[entry.node] = entry.mono_us  # an elected one has no locks either
        self._change("", entry)
        if (move := self.cluster.roles.move) is not None:
            self.move(move)
        else:
            for known in [each for each in self._members if each[0] == entry.node]:
                del self._members[known]
        self.forget("")

    def _acting_began(self, fact: ActingMasterBegan, entry: Entry) -> None:
        """A slave has its own members, and no locks."""
        self._started_us[entry.node] = entry.mono_us
        self._change("", entry)

    def _change(self, group: str, entry: Entry) -> None:
        self._changed_us[group] = entry.mono_us
