"""How members share queues, from their pulls: one member per queue, by regular passes."""

from __future__ import annotations

from typing import NamedTuple

from rocketmq_emulator.checks.servers.members import MemberMonitor
from rocketmq_emulator.checks.state.broker_roles import Move
from rocketmq_emulator.checks.state.checker import CheckerContext, key_of
from rocketmq_emulator.checks.state.violation import Table, place_of
from rocketmq_emulator.facts import (
    ConnectionClosed,
    PullAnswered,
    PullHeld,
    Queue,
    RequestReceived,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey
from rocketmq_emulator.protocol.codes import RequestCode

PASS_US = 20_000_000  # rebalanceInterval
LATE_US = 20_000_000  # for calls to brokers that do not answer, and locks


class _Pull(NamedTuple):
    client: str
    key: EntryKey


class OneMemberAQueue(MemberMonitor):
    """Client invariant 27, from pulls."""

    name = "one_member_a_queue"
    rule = (
        "members with equal inputs take all queues, each once, so no two of a clustering group "
        "pull one queue when a rebalance has settled (client invariant 27; "
        "RebalanceImpl.rebalanceByTopic)"
    )
    invariants = (27,)
    needs = (PullHeld, PullAnswered)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._last: dict[tuple[str, Queue], tuple[_Pull, ...]] = {}  # by different clients, ≤ 2

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {**super().table(), PullHeld: self._pull, PullAnswered: self._pull}

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        member = self.member(fact.group, entry.node, fact.peer)
        if member is None or member.broadcasts:
            return
        known = fact.group, fact.queue
        mine = _Pull(member.client, key_of(entry))
        before = self._last.get(known, ())
        if not before or before[-1].client == member.client:
            self._last[known] = (*before[:-1], mine)
            return
        other = before[-1]
        was_mine = len(before) > 1 and before[0].client == member.client
        if was_mine and self.is_settled(fact.group, before[0].key.mono_us):
            self.report_violation(
                f"{member.client} and {other.client} both pull {place_of(fact.queue)} for "
                f"{fact.group}, and no member came or went lately",
                before[0].key,
                other.key,
                entry,
                node=member.client,
            )
            self._last[known] = (mine,)
        else:
            self._last[known] = (other, mine)


class ClientIdsDiffer(MemberMonitor):
    """Client invariants 5 and 33: members with one id get one share, and leave another out."""

    name = "client_ids_differ"
    rule = (
        "members of a group have different client ids: the second share of an id that is listed "
        "twice has no owner (client invariants 5 and 33; ClientConfig.buildMQClientId)"
    )
    invariants = (5, 33)
    needs = (PullHeld, PullAnswered)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._last: dict[tuple[str, str, str], EntryKey] = {}  # broker, group, peer: its last pull
        self._reported: set[tuple[str, str]] = set()  # group, client

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {**super().table(), PullHeld: self._pull, PullAnswered: self._pull}

    def move(self, move: Move) -> None:
        """Another node is the master of a broker name: its connections stay."""
        super().move(move)
        move.rekey(self._last)

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        member = self.member(fact.group, entry.node, fact.peer)
        if member is None or member.broadcasts or (fact.group, member.client) in self._reported:
            return
        self._last[entry.node, fact.group, fact.peer] = key_of(entry)
        for other in self.members_at(fact.group, entry.node):
            pulled = self._last.get((entry.node, fact.group, other.peer))
            if other.client != member.client or other.peer == member.peer or pulled is None:
                continue
            if pulled > member.joined:  # both pull: neither is an old connection that will close
                self._reported.add((fact.group, member.client))
                self.report_violation(
                    f"two members of {fact.group} have one id, {member.client}: {other.peer} "
                    f"and {member.peer}",
                    other.joined,
                    member.joined,
                    entry,
                    node=member.client,
                )


class PassesAreRegular(MemberMonitor):
    """Client invariant 25, from facts of brokers: a pass asks for the members of the group."""

    name = "passes_come"
    rule = (
        "without a fault a pass comes every 20 s, and asks a broker for the group's members "
        "(client invariant 25; RebalanceService.run)"
    )
    invariants = (25,)
    needs = (RequestReceived,)

    def __init__(self, shared: CheckerContext) -> None:
        super().__init__(shared)
        self._asked: dict[str, EntryKey] = {}  # by client

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            **super().table(),
            RequestReceived: self._received,
            ConnectionClosed: self._closed,
        }

    def end(self) -> None:
        """Check clients whose next request had not come when the journal ended."""
        for client in list(self._asked):
            if self.cluster.last is not None:  # never None if a client is known
                self._check(client, self.cluster.last)

    def _received(self, fact: RequestReceived, entry: Entry) -> None:
        if fact.code != RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return
        for client in self._clients_at(entry.node, fact.peer):
            self._check(client, entry)
            self._asked[client] = key_of(entry)

    def _closed(self, fact: ConnectionClosed, entry: Entry) -> None:
        for client in self._clients_at(entry.node, fact.peer):
            self._asked.pop(client, None)

    def _clients_at(self, broker: str, peer: str) -> set[str]:
        return {
            each.client
            for each in self._members.values()
            if (each.broker, each.peer) == (broker, peer) and not each.broadcasts
        }

    def _check(self, client: str, entry: Entry) -> None:
        before = self._asked.get(client)
        is_member = any(each.client == client for each in self._members.values())
        if before is None or not is_member or self.is_disturbed(entry.mono_us):
            return
        silent_us = entry.mono_us - before.mono_us
        if silent_us > PASS_US + LATE_US:
            self.report_violation(
                f"{client} asked no broker for the members of its groups for "
                f"{silent_us / 1e6:.1f} s",
                before,
                entry,
                node=client,
            )
