"""The sync-state set of each broker name that has controllers, up to now, as the leader notes it.

The set are the brokers that have all of their master's messages.  A master waits for every member
of the set that it knows; while a change of the set is under way, for those of both.  So whoever is
in the leader's set has all that the master acknowledged so, and whoever is elected out of it, too.

Upstream: ReplicasInfoManager, AutoSwitchHAService.getSyncStateSet.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketmq_emulator.checks.state.broker_roles import ElectedMasters
from rocketmq_emulator.checks.state.disturbances import Span
from rocketmq_emulator.checks.state.violation import Table
from rocketmq_emulator.facts import ElectionFailed, MasterElected, SyncStateSetChanged
from rocketmq_emulator.facts.journal import Entry

SIZES_MAX = 1_000  # changes of one set's size that are kept


class SyncStateSets:
    """The ids in the set of each name, and whether its last master was elected out of it."""

    def __init__(self, roles: ElectedMasters) -> None:
        self._roles = roles
        self._sets: dict[str, frozenset[int]] = {}
        self._was_clean: dict[str, bool] = {}
        self._sizes: dict[str, list[tuple[int, int]]] = {}  # by name: since when, how many

    def table(self) -> Table:
        """Return the handler of each fact type that it reads."""
        return {
            SyncStateSetChanged: self._changed,
            MasterElected: self._elected,
            ElectionFailed: self._failed,
        }

    def slaves_of(self, name: str) -> Iterator[str]:
        """The members of the set besides the master, as rules see them."""
        for number in sorted(self._sets.get(name, ())):
            node = self._roles.node_of(name, number)
            if node and node != name:
                yield node

    def count(self, name: str) -> int:
        """How many brokers are in the set, the master included; 0: not known."""
        return len(self._sets.get(name, ()))

    def spans_below(self, name: str, count: int, until_us: int) -> Iterator[Span]:
        """The times, up to now, in which the set had fewer than *count* members."""
        sizes = self._sizes.get(name, ())
        ends = [since_us for since_us, _ in sizes[1:]] + [until_us]
        for (since_us, size), end_us in zip(sizes, ends, strict=False):
            if size < count:
                yield since_us, end_us

    def was_elected_from_set(self, name: str) -> bool:
        """Whether the last elected master was in the set: otherwise it may lack anything."""
        return self._was_clean.get(name, False)

    def _changed(self, fact: SyncStateSetChanged, entry: Entry) -> None:
        self._becomes(fact.broker, fact.sync_state_set, entry)

    def _elected(self, fact: MasterElected, entry: Entry) -> None:
        known = self._sets.get(fact.broker, frozenset())
        self._was_clean[fact.broker] = not known or fact.broker_id in known
        self._becomes(fact.broker, (fact.broker_id,), entry)

    def _failed(self, fact: ElectionFailed, entry: Entry) -> None:
        self._becomes(fact.broker, fact.sync_state_set, entry)

    def _becomes(self, name: str, ids: tuple[int, ...], entry: Entry) -> None:
        self._sets[name] = frozenset(ids)
        sizes = self._sizes.setdefault(name, [])
        if not sizes or sizes[-1][1] != len(self._sets[name]):
            sizes.append((entry.mono_us, len(self._sets[name])))
            del sizes[:-SIZES_MAX]
