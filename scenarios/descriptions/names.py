"""Node names for the client ids and addresses in a journal.

A broker's facts name a member by its client id or by the address of its connection.
``ConsumerStarted`` maps a client id to its node, ``MemberJoined`` (the first heartbeat over a
connection) maps an address to a client id.  A producer's client id is that of the node that
answers a check, if only one client was asked about that message.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import msgspec

from rocketmq_emulator.facts import (
    ConsumerStarted,
    FaultBegan,
    MemberJoined,
    Queue,
    TransactionAnswered,
    TransactionChecked,
)
from rocketmq_emulator.facts.journal import Entry


class NodeNames:
    """Maps client ids, addresses and fault ids of *entries*, which are in the order of time."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._nodes: dict[str, str] = {}  # of consumers, by client id
        self._producers: dict[str, str] = {}  # nodes that answered checks, by client id
        asked: dict[str, set[str]] = {}  # by key of a half message: client ids
        self._clients: dict[tuple[str, str], list[tuple[int, str]]] = {}  # by broker and address
        self._faults: dict[int, FaultBegan] = {}
        for entry in entries:
            fact = entry.fact
            if isinstance(fact, ConsumerStarted):
                self._nodes[fact.client] = entry.node
            elif isinstance(fact, MemberJoined):
                joined = self._clients.setdefault((entry.node, fact.peer), [])
                joined.append((entry.mono_us, fact.client))
            elif isinstance(fact, TransactionChecked):
                if fact.client:  # else no producer was connected
                    asked.setdefault(fact.uniq_key, set()).add(fact.client)
            elif isinstance(fact, TransactionAnswered):
                if len(clients := [*asked.get(fact.uniq_key, ())]) == 1:
                    self._producers.setdefault(clients[0], entry.node)
            elif isinstance(fact, FaultBegan):
                self._faults[fact.fault_id] = fact

    @property
    def consumers(self) -> set[str]:
        """All nodes with a ``ConsumerStarted``."""
        return set(self._nodes.values())

    def node_of(self, client: str) -> str:
        """The node with this client id; the id itself if no fact shows its node."""
        return self._nodes.get(client) or self._producers.get(client, client)

    def at(self, broker: str, peer: str, mono_us: int) -> str:
        """The node at the other end of a connection to *broker*; its address if it is unknown."""
        joined = self._clients.get((broker, peer))
        if joined is None:
            return peer
        index = bisect_right(joined, (mono_us, "\U0010ffff")) - 1
        return self.node_of(joined[max(index, 0)][1])

    def named_in(self, entry: Entry) -> set[str]:
        """The nodes of a fact: the node that recorded it, and those that it names."""
        found, fact = {entry.node}, entry.fact
        if client := getattr(fact, "client", ""):
            found.add(self.node_of(client))
        if peer := getattr(fact, "peer", ""):
            found.add(self.at(entry.node, peer, entry.mono_us))
        for name in ("node", "broker"):
            if value := getattr(fact, name, ""):
                found.add(value)
        return found | set(getattr(fact, "nodes", ())) | {q.broker for q in queues_of(fact)}

    def fault(self, fault_id: int) -> str:
        """A fault's word and its fields, as ``fault_in_words``; "fault 3" if it is unknown."""
        began = self._faults.get(fault_id)
        return f"fault {fault_id}" if began is None else fault_in_words(began.fault)


def queues_of(fact: object) -> tuple[Queue, ...]:
    """All queues that *fact* names."""
    several = (getattr(fact, name, ()) for name in ("queues", "granted", "refused"))
    found = (getattr(fact, "queue", None), *(queue for queues in several for queue in queues))
    return tuple(queue for queue in found if isinstance(queue, Queue))


def words_of(sentence: str) -> set[str]:
    """The words of *sentence*, among them names of nodes, groups and queues."""
    return set(sentence.translate(str.maketrans(",;()", "    ")).split())


def word_of(fault: str) -> str:
    """The word of a fault in JSON."""
    return str(_fields(fault).get("fault", ""))


def fault_in_words(fault: str) -> str:
    """A fault in JSON as its word and its fields: ``cut between broker-a, billing-2``."""
    fields = dict(_fields(fault))
    word = fields.pop("fault", fault)
    rest = (
        f"{'' if name == 'node' else name.replace('_', ' ')} {_text(value)}".strip()
        for name, value in fields.items()
    )
    return " ".join([str(word), ", ".join(rest)]).strip()


def _fields(fault: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(fault)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    if isinstance(value, dict):
        return f"({', '.join(f'{name} {_text(each)}' for name, each in value.items())})"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
