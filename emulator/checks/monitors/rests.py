"""When a queue is pulled: a while after its claim, and after its offset was refused.

Two rules about rests between pulls, of each member by itself.
"""

from __future__ import annotations

from emulator.checks.checker import Shared
from emulator.checks.folding import Table
from emulator.checks.monitors.monitor import US_A_MS
from emulator.checks.monitors.pulls import OfPushGroups, key, place
from emulator.facts import PullAnswered, PullHeld, Queue, QueuesClaimed
from emulator.journal import Entry, EntryKey
from protocol.codes import ResponseCode

FIRST_PULL_US = 500_000  # since FIRST_PULL_WAITS
FIRST_PULL_WAITS = (5, 0, 0)
REPAIR_OLD_US = 10_000_000  # up to 5.1.4
REPAIR_US = 500_000  # since REPAIRED_SOON
REPAIRED_SOON = (5, 2, 0)


class FirstPullsWait(OfPushGroups):
    """Client invariant 37, since 5.0.0."""

    name = "first_pulls"
    rule = (
        "since 5.0.0 the first pull of a new queue is 500 ms after its claim (client invariant 37)"
    )
    invariants = (37,)
    servers_suffice = False
    needs = (QueuesClaimed,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._claims: dict[tuple[str, Queue], EntryKey] = {}
        self._pulled: dict[str, set[Queue]] = {}  # by group

    def table(self) -> Table:
        """What it reads."""
        return {
            **super().table(),
            QueuesClaimed: self._claimed,
            PullHeld: self._pull,
            PullAnswered: self._pull,
        }

    def _claimed(self, fact: QueuesClaimed, entry: Entry) -> None:
        if self.release_at(fact.group, entry.node) < FIRST_PULL_WAITS:
            return
        pulled = self._pulled.get(fact.group, ())
        for queue in fact.queues:
            if queue not in pulled and self.is_judged(queue.broker, fact.group):
                self._claims[fact.group, queue] = key(entry)

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        pulled = self._pulled.get(fact.group)
        if pulled is None:
            pulled = self._pulled[fact.group] = set()
        if fact.queue in pulled:
            return
        pulled.add(fact.queue)
        claimed = self._claims.pop((fact.group, fact.queue), None)
        if claimed is not None and not self._is_of(claimed.node, fact):
            claimed = None  # another member's, which may be of an older release
        self.tries(claimed is not None)
        if claimed is not None and entry.mono_us - claimed.mono_us < FIRST_PULL_US:
            self.objects(
                f"{place(fact.queue)} was pulled "
                f"{(entry.mono_us - claimed.mono_us) // US_A_MS} ms after {claimed.node} claimed "
                "it",
                claimed,
                entry,
                node=claimed.node,
            )

    def _is_of(self, node: str, fact: PullHeld | PullAnswered) -> bool:
        """The pull came over the connection of the member on *node*."""
        seat = self.scene.seat(fact.group, node)
        client = self._clients.get((fact.queue.broker, fact.peer))
        return seat is not None and client == seat.started.client


class IllegalOffsetsRest(OfPushGroups):
    """Client invariant 42."""

    name = "illegal_offsets_rest"
    rule = (
        "after OFFSET_ILLEGAL no pull of the queue for 10 s, since 5.2.0 for 0.5 s "
        "(client invariant 42)"
    )
    invariants = (42,)
    needs = (PullAnswered,)

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._moved: dict[tuple[str, Queue, str], EntryKey] = {}  # with the address of who pulled

    def table(self) -> Table:
        """What it reads."""
        return {**super().table(), PullAnswered: self._answered, PullHeld: self._pull}

    def forget(self, broker: str, group: str) -> None:
        """A new process queue pulls on its own."""
        for known in list(self._moved):
            if group in ("", known[0]) and broker in ("", known[1].broker):
                del self._moved[known]

    def _answered(self, fact: PullAnswered, entry: Entry) -> None:
        self._pull(fact, entry)
        if fact.response_code == ResponseCode.PULL_OFFSET_MOVED:
            self.tries(self.scene.kinds(fact.group) <= {"push"})
            self._moved[fact.group, fact.queue, fact.peer] = key(entry)

    def _pull(self, fact: PullHeld | PullAnswered, entry: Entry) -> None:
        if not self._moved:
            return
        moved = self._moved.pop((fact.group, fact.queue, fact.peer), None)
        if moved is None or not self.scene.kinds(fact.group) <= {"push"}:
            return
        passed_us = entry.mono_us - moved.mono_us
        if passed_us < self._rest_us(fact.group):
            self.objects(
                f"{fact.group} pulled {place(fact.queue)} {passed_us // US_A_MS} ms after its "
                "offset was refused as illegal",
                moved,
                entry,
            )

    def _rest_us(self, group: str) -> int:
        """By the release of its members; of others the shorter one."""
        seats = self.scene.living(group)
        releases = [self.release_at(group, seat.node) for seat in seats]
        is_old = bool(releases) and all(() < release < REPAIRED_SOON for release in releases)
        return REPAIR_OLD_US if is_old else REPAIR_US
