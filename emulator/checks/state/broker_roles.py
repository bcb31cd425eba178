"""Which node is the master of a broker name, at each moment; rules see names instead of nodes.

Without controllers a master's node has its broker name, and most rules count on that: what
``broker-a`` stores is in a queue of ``broker-a``.  With controllers the role moves.  Then rules
are given the entries of the master as those of the name, and those of all other nodes of the name
as those of its slaves, ``broker-a-1`` and so on: the node that is called as its name is
``broker-a-0`` while another one is the master.

For a rule an election is a restart of the broker: its process ended, and another one began with
the log that the elected slave has.  The entry of the election is given to the rules as these
events; ``move`` says more to those that ask.  A master that was replaced and does not know it yet
goes on to store messages: they are in no queue of the name.  ``is_of_replaced`` tells which.

What a master that starts again has in its log counts once it has its role again: until then a
slave may be elected that has more.

Upstream: ReplicasManager.changeToMaster, changeToSlave.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from rocketmq_emulator.checks.state.disturbances import PROCESS_ENDING
from rocketmq_emulator.facts import (
    BrokerRoleChanged,
    DelayedDelivered,
    Fact,
    FaultBegan,
    HalfMessageStored,
    ImmuneHalfStoredAgain,
    LogRecovered,
    LogTailCut,
    MessageSent,
    MessageStored,
    NodeKilled,
    NodePaused,
    NodeResumed,
    NodeStarted,
    Queue,
    StoreOpened,
    TimerMessageDelivered,
    TimerMessagePutAside,
    TransactionChecked,
    TransactionEnded,
    TransactionGivenUp,
)
from rocketmq_emulator.facts.journal import Entry, EntryKey

SLAVE = re.compile(r"(.+)-\d+")  # the names that a cluster gives to the slaves of a broker
RECOVERED = frozenset({LogTailCut, LogRecovered})
ALWAYS_READ = RECOVERED | {NodeStarted, StoreOpened, BrokerRoleChanged, FaultBegan}
STORING = frozenset(  # of a master's log; at a replaced one they are about no queue of the name
    {
        MessageStored,
        HalfMessageStored,
        DelayedDelivered,
        TimerMessageDelivered,
        TimerMessagePutAside,
        TransactionEnded,
        TransactionChecked,
        TransactionGivenUp,
        ImmuneHalfStoredAgain,
    }
)
K = TypeVar("K")
V = TypeVar("V")
PROCESS_CHARS = 20  # of a unique key: they name the process that made it
KEYS_MAX = 100_000  # of messages that replaced masters stored


class Move(msgspec.Struct, frozen=True):
    """The role of the master of *name* moved to *node*, which was seen as *slave* before.

    *left* is the slave as which the former master is seen from now on.
    """

    name: str
    node: str
    slave: str
    left: str
    master_epoch: int
    at_us: int

    def after(self, seen: str) -> str:
        """The name of the node that was seen as *seen* before the move."""
        return {self.name: self.left, self.slave: self.name}.get(seen, seen)

    def rekey(self, known: dict[K, V]) -> None:
        """Move the values of *known*, by node or by a tuple that begins with it.

        For state of a node that an election does not end, as its connections.
        """
        items = list(known.items())
        known.clear()
        for key, value in items:
            known[_with_node(key, self.after)] = value


class ElectedMasters:
    """The masters of all names, up to now."""

    def __init__(self) -> None:
        self.masters: dict[str, str] = {}  # by name: the node; only names with controllers
        self.epochs: dict[str, int] = {}  # by name: that of its master
        self.moves: list[Move] = []
        self.move: Move | None = None  # of the entry that is being read
        self.seen_as: dict[str, str] = {}  # by node, if rules see another name
        self._replaced_nodes: set[str] = set()  # masters that do not know of their successors
        self.vacant: set[str] = set()  # names whose masters are slaves of one that has no role yet
        self._started: dict[str, NodeStarted] = {}
        self._opened: dict[str, StoreOpened] = {}
        self._recovered: dict[str, list[Entry]] = {}  # by name: of its master, until it has a role
        self._addresses: dict[str, str] = {}  # of the nodes
        self._ids: dict[tuple[str, int], str] = {}  # by name and id at the controllers: the node
        self._held: dict[str, list[tuple[int, str]]] = {}  # by name: its masters, and since when
        self._replaced: dict[tuple[Queue, int, str], None] = {}  # stored by replaced masters
        self._replaced_waiting: dict[tuple[str, str, int, str], None] = {}  # of delayed ones
        self._replaced_at: dict[tuple[Queue, int], set[str]] = {}  # the same, by place
        self._replaced_keys: set[tuple[str, str]] = set()  # the same, by broker and key
        self.replaced_checks: Counter[str] = (
            Counter()
        )  # by key of a half message: of these masters
        self.replaced_commits: dict[str, None] = {}  # keys of half messages
        self.note_left_behind: Callable[[MessageStored], object] = _no_one  # one is set

    def needs(self, kind: type[Fact]) -> bool:
        """Whether entries of *kind* are to be given to ``seen``."""
        has_moved = bool(self.seen_as or self._replaced_nodes) or self.move is not None
        return has_moved or kind in ALWAYS_READ

    def seen(self, entry: Entry) -> Sequence[Entry]:
        """The entries that rules see instead of *entry*."""
        fact, self.move = entry.fact, None
        if isinstance(fact, NodeStarted):
            self._started[entry.node] = fact
            self._replaced_nodes.discard(entry.node)
            self._addresses[fact.address] = entry.node
        elif isinstance(fact, StoreOpened):
            self._opened[entry.node] = fact
        elif isinstance(fact, BrokerRoleChanged):
            return self._role_changed(fact, entry)
        elif isinstance(fact, FaultBegan):
            return (_with(entry, self._faulted(fact)),)
        elif isinstance(fact, NodeKilled | NodePaused | NodeResumed):
            return (_with(entry, type(fact)(self.seen_as.get(fact.node, fact.node))),)
        elif type(fact) in RECOVERED and self.masters.get(name_of(entry.node)) == entry.node:
            self._recovered.setdefault(name_of(entry.node), []).append(entry)
            return ()
        elif type(fact) in STORING and not self.is_master(entry.node):
            self._noted_by_replaced(fact)
            return ()
        return (self._renamed(entry),)

    def _noted_by_replaced(self, fact: Fact) -> None:
        if isinstance(fact, MessageStored):
            self.leave_behind(fact.queue, fact.offset, fact.uniq_key)
            if fact.real_topic:
                waiting = (fact.queue.broker, fact.real_topic, fact.offset, fact.uniq_key)
                self._replaced_waiting[waiting] = None
                if len(self._replaced_waiting) > KEYS_MAX:
                    del self._replaced_waiting[next(iter(self._replaced_waiting))]
            self.note_left_behind(fact)
        elif isinstance(fact, TransactionChecked):
            self.replaced_checks[fact.uniq_key] += 1
        elif isinstance(fact, TransactionEnded) and fact.outcome == "commit":
            self.replaced_commits[fact.uniq_key] = None

    def is_master(self, node: str) -> bool:
        """Whether *node* is the master of its name, or has no controllers."""
        return self.masters.get(name_of(node), node) == node

    def is_replaced(self, seen: str) -> bool:
        """Whether the node seen as *seen* serves as a master, and another one was elected."""
        return any(self.seen_as.get(node) == seen for node in self._replaced_nodes)

    def seen_at(self, address: str) -> str:
        """The node that listens at *address*, as rules see it; empty if none is known."""
        node = self._addresses.get(address, "")
        return self.seen_as.get(node, node)

    def node_of(self, name: str, broker_id: int) -> str:
        """The broker of *name* with that id at the controllers, as rules see it; or empty."""
        node = self._ids.get((name, broker_id), "")
        return self.seen_as.get(node, node)

    def is_of_replaced(self, fact: MessageSent) -> bool:
        """Whether the acknowledged message is in no queue: only a replaced master's log had it.

        A delayed message is acknowledged with the queue that it was sent to, and with the offset
        of the queue where it waits.  Upstream: SendMessageProcessor.handlePutMessageResult.
        """
        if (fact.queue, fact.offset, fact.uniq_key) in self._replaced:
            return True
        waiting = (fact.queue.broker, fact.topic, fact.offset, fact.uniq_key)
        return waiting in self._replaced_waiting

    def was_left_behind(self, fact: MessageSent) -> bool:
        """Whether a replaced master stored it in another queue, or as one of a batch.

        A batch is stored under a key of its own, of the same process.
        """
        if (fact.queue.broker, fact.uniq_key) in self._replaced_keys:
            return True
        keys = self._replaced_at.get((fact.queue, fact.offset), ())
        return any(key[:PROCESS_CHARS] == fact.uniq_key[:PROCESS_CHARS] for key in keys)

    def leave_behind(self, queue: Queue, offset: int, key: str) -> None:
        """Note a message that no queue has, as only a replaced master's log has it."""
        self._replaced[queue, offset, key] = None
        self._replaced_at.setdefault((queue, offset), set()).add(key)
        self._replaced_keys.add((queue.broker, key))
        if len(self._replaced) > KEYS_MAX:
            del self._replaced[next(iter(self._replaced))]

    # Where things are in the journal ------------------------------------------------------

    def true_key(self, key: EntryKey) -> EntryKey:
        """The key in the journal of the entry that rules saw with *key*."""
        node = self.true_node(key.node, key.mono_us)
        return key if node == key.node else EntryKey(key.mono_us, node, key.seq)

    def true_node(self, seen: str, at_us: int) -> str:
        """The node that rules saw as *seen* at *at_us*."""
        if (held := self._held.get(seen)) is not None:
            return next((node for since_us, node in reversed(held) if since_us <= at_us), seen)
        return self.true_text(seen)

    def true_text(self, text: str) -> str:
        """*text* with the names of nodes."""
        for name in self._held:
            text = re.sub(rf"\b{re.escape(_away(name))}\b", name, text)
        return text

    # Elections ----------------------------------------------------------------------------

    def _role_changed(self, fact: BrokerRoleChanged, entry: Entry) -> Sequence[Entry]:
        name, node = name_of(entry.node), entry.node
        self._ids[name, fact.broker_id] = node
        before = self.masters.setdefault(name, name)
        self._replaced_nodes.discard(node)
        if fact.role != "master":
            if node == before:
                self.vacant.add(name)
            return (self._renamed(entry),)
        if fact.master_epoch < self.epochs.get(name, 0):  # it learns late of an election before
            self._replaced_nodes.add(node)
            return (self._renamed(entry),)
        self.epochs[name] = fact.master_epoch
        self.vacant.discard(name)
        recovered = self._recovered.pop(name, ())
        if node == before:
            return (*map(self._renamed, recovered), self._renamed(entry))
        self.masters[name] = node
        self._replaced_nodes.add(before)
        self._held.setdefault(name, [(0, before)]).append((entry.mono_us, node))
        left = before if before != name else _away(name)
        slave = self.seen_as.get(node, node)
        self.seen_as[before] = left
        self.seen_as[node] = name
        self.seen_as = {node: seen for node, seen in self.seen_as.items() if node != seen}
        self.move = Move(name, node, slave, left, fact.master_epoch, entry.mono_us)
        self.moves.append(self.move)
        facts = (self._started.get(node), self._opened.get(node))
        return (
            _with(self._renamed(entry), NodeKilled(name)),
            self._renamed(entry),
            *(_with(self._renamed(entry), each) for each in facts if each is not None),
            *map(self._renamed, recovered),  # of the former master
        )

    def _faulted(self, fact: FaultBegan) -> FaultBegan:
        """A fault at any broker of a name disturbs the name, as its master may be another."""
        nodes = [self.seen_as.get(node, node) for node in fact.nodes]
        if not any(f'"fault":"{word}"' in fact.fault for word in PROCESS_ENDING):
            nodes += [name for name in map(name_of, fact.nodes) if name in self.masters]
        return msgspec.structs.replace(fact, nodes=tuple(dict.fromkeys(nodes)))

    def _renamed(self, entry: Entry) -> Entry:
        seen = self.seen_as.get(entry.node)
        return entry if seen is None else msgspec.structs.replace(entry, node=seen)


def _no_one(_: MessageStored) -> None:
    """Nobody follows the messages of replaced masters."""


def _with_node(key: Any, after: Callable[[str], str]) -> Any:  # noqa: ANN401  # of any rule
    return after(key) if isinstance(key, str) else (after(key[0]), *key[1:])


def name_of(node: str) -> str:
    """The broker name of a broker's *node*; of another node its own name."""
    match = SLAVE.fullmatch(node)
    return node if match is None else match[1]


def _away(name: str) -> str:
    """The slave as which the node called *name* is seen while another one is the master."""
    return f"{name}-0"


def _with(entry: Entry, fact: Fact) -> Entry:
    return entry if fact is entry.fact else msgspec.structs.replace(entry, fact=fact)
