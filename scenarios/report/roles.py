"""Which broker was the master of its name at what time, and when masters were elected.

With controllers a broker records each of its roles.  Without them a broker that registers with
id 0 is the master, and the others are slaves; one of them may act as the master.  A role lasts
until the broker's next one, or until its process ends: a master that is paused stays one, and a
master that was replaced while it could not be reached is one too, until it learns of it.

Upstream: ReplicasManager.changeToMaster, BrokerController.onMinBrokerChange.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from rocketmq_emulator.facts import (
    ActingMasterBegan,
    ActingMasterEnded,
    BrokerRegistered,
    BrokerRoleChanged,
    ElectionFailed,
    MasterElected,
    NodeStarted,
)
from rocketmq_emulator.facts.journal import Entry

OPEN_END = -1
MASTER, SLAVE, ACTING = "master", "slave", "acting master"


class RoleSpan(msgspec.Struct):
    """A period in which *node* had one role; *fact*: the number of the fact that shows it."""

    node: str
    role: str  # MASTER, SLAVE or ACTING
    from_us: int
    until_us: int
    fact: int
    epoch: int = 0  # of the master, from the controllers; 0: there are none


class RoleHistory:
    """Folds facts of roles and registrations into spans."""

    def __init__(self) -> None:
        self.elections: list[int] = []  # numbers of facts, also of elections that failed
        self._spans: list[RoleSpan] = []
        self._current: dict[str, RoleSpan] = {}  # by node
        self._nodes: dict[str, str] = {}  # by address
        self._has_controllers: set[str] = set()  # nodes that record their roles

    def started(self, _number: int, entry: Entry, fact: NodeStarted) -> None:
        """A process began: it has no role yet."""
        self._nodes[fact.address] = entry.node
        self.ended(entry.node, entry.mono_us)

    def changed(self, number: int, entry: Entry, fact: BrokerRoleChanged) -> None:
        """A controller gave a broker its role."""
        self._has_controllers.add(entry.node)
        self._begin(entry.node, fact.role, entry.mono_us, number, fact.master_epoch)

    def registered(self, number: int, entry: Entry, fact: BrokerRegistered) -> None:
        """A broker serves from now on; what an acting master registers changes nothing."""
        node = self._nodes.get(fact.address, "")
        if not node or node in self._has_controllers:
            return
        role = MASTER if fact.broker_id == 0 else SLAVE
        known = self._current.get(node)
        if known is None or known.role not in (role, ACTING):
            self._begin(node, role, entry.mono_us, number)

    def acting_began(self, number: int, entry: Entry, _fact: ActingMasterBegan) -> None:
        """A slave acts as the master of its name."""
        self._begin(entry.node, ACTING, entry.mono_us, number)

    def acting_ended(self, number: int, entry: Entry, _fact: ActingMasterEnded) -> None:
        """A slave does not act as the master any more."""
        self._begin(entry.node, SLAVE, entry.mono_us, number)

    def elected(self, number: int, _entry: Entry, _fact: MasterElected | ElectionFailed) -> None:
        """A controller elected a master, or found none."""
        self.elections.append(number)

    def ended(self, node: str, at_us: int) -> None:
        """The process of *node* ended, or is known to have ended earlier."""
        span = self._current.pop(node, None)
        if span is not None:
            span.until_us = max(span.from_us, at_us)

    def spans(self, end_us: int) -> list[RoleSpan]:
        """All spans, by node and time; empty if all brokers are masters all the time."""
        for span in self._current.values():
            span.until_us = end_us
        if not self.elections and all(span.role == MASTER for span in self._spans):
            return []
        return self._spans

    def _begin(self, node: str, role: str, at_us: int, number: int, epoch: int = 0) -> None:
        self.ended(node, at_us)
        self._current[node] = span = RoleSpan(node, role, at_us, OPEN_END, number, epoch)
        self._spans.append(span)


def masters_of(spans: Iterable[RoleSpan]) -> list[RoleSpan]:
    """The spans of masters and acting masters, in the order of time."""
    return sorted((span for span in spans if span.role != SLAVE), key=lambda span: span.from_us)
