"""A group of three controllers in a time that the test moves: messages late or lost, nodes hurt.

Whatever is committed anywhere is compared with what was committed elsewhere, at once.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from functools import partial

from rocketmq_emulator.controller.state.events import AnyEvent, MasterElecting, TablesSaved
from rocketmq_emulator.controller.state.group import (
    ControllerGroup,
    GroupReply,
    GroupRequest,
)
from rocketmq_emulator.controller.state.group_log import GroupLog
from rocketmq_emulator.disk.memory import MemoryDisk

IDS = ("n0", "n1", "n2")
ANSWER_MS_MAX = 1_000


class Member:
    """One controller: its disk outlives its process, which is ``group``."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.group: ControllerGroup | None = None
        self.is_paused = False
        self.held: list[Callable[[], None]] = []


class GroupOfThree:
    """Three members; ``run(ms)`` passes time."""

    def __init__(self, seed: int, *, delay_ms_max: int = 20, lines_max: int = 1_000) -> None:
        self.now_ms = 0
        self.rng = random.Random(seed)
        self.members = {member_id: Member() for member_id in IDS}
        self.cut: set[frozenset[str]] = set()
        self.committed: dict[int, AnyEvent | None] = {}  # by index; equal at every member
        self.answered: dict[int, AnyEvent] = {}  # by index: what a leader has answered
        self.steps = 0  # messages that arrived
        self.on_step: Callable[[int], object] = lambda _step: None
        self._delay_ms_max = delay_ms_max
        self._lines_max = lines_max
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        for member_id in IDS:
            self.start(member_id)

    # Hurting ----------------------------------------------------------------------------

    def start(self, member_id: str) -> None:
        member = self.members[member_id]
        if member.group is not None:
            return
        log = GroupLog(member.disk, self._lines_max)
        others = [other for other in IDS if other != member_id]
        group = ControllerGroup(member_id, others, log, rng=self.rng, now_ms=self.now_ms)
        group.send = partial(self._send, member_id, group)
        group.on_committed = self._committed
        group.on_replaced = self._replaced
        member.group = group
        self._plan_tick(member_id, group)

    def kill(self, member_id: str) -> None:
        member = self.members[member_id]
        member.group, member.is_paused, member.held = None, False, []

    def pause(self, member_id: str) -> None:
        self.members[member_id].is_paused = True

    def resume(self, member_id: str) -> None:
        member = self.members[member_id]
        member.is_paused = False
        held, member.held = member.held, []
        for action in held:
            action()

    def cut_off(self, member_id: str) -> None:
        self.cut |= {frozenset((member_id, other)) for other in IDS if other != member_id}

    def heal(self) -> None:
        self.cut.clear()
        for member_id in IDS:
            self.resume(member_id)
            self.start(member_id)

    # What it does -----------------------------------------------------------------------

    def leaders(self) -> list[str]:
        """Those that would decide now; a paused one does nothing."""
        return [
            member_id
            for member_id, member in self.members.items()
            if member.group is not None and not member.is_paused and member.group.may_decide
        ]

    def decide(self, winner: int) -> bool:
        """Ask every controller for a decision, as a broker that knows all; one may take it."""
        for member_id in self.leaders():
            group = self.members[member_id].group
            assert group is not None
            event = MasterElecting("broker-a", winner)
            index = group.propose(event)
            self._wait_for_answer(member_id, group, group.term, index, event)
        return bool(self.leaders())

    def run(self, ms: int) -> None:
        until_ms = self.now_ms + ms
        while self._heap and self._heap[0][0] <= until_ms:
            at_ms, _, action = heapq.heappop(self._heap)
            self.now_ms = max(self.now_ms, at_ms)
            action()
        self.now_ms = until_ms

    def check_answers(self) -> None:
        """What was answered is committed, and is what every member will have."""
        for index, event in self.answered.items():
            assert self.committed[index] == event, index

    # Inside -----------------------------------------------------------------------------

    def after(self, after_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now_ms + after_ms, next(self._order), action))

    def _plan_tick(self, member_id: str, group: ControllerGroup) -> None:
        def tick() -> None:
            if self.members[member_id].group is not group:
                return

            def now() -> None:
                if self.members[member_id].group is group:
                    group.tick(self.now_ms)

            self.when_it_runs(member_id, now)
            self._plan_tick(member_id, group)

        self.after(max(1, group.next_due_ms - self.now_ms), tick)

    def when_it_runs(self, member_id: str, action: Callable[[], None]) -> None:
        member = self.members[member_id]
        if member.is_paused:
            member.held.append(action)
        else:
            action()

    def _send(
        self, sender: str, group: ControllerGroup, target: str, request: GroupRequest
    ) -> None:
        message = _Message(self, sender, group, target, request)
        self.after(self.delay_ms(), message.arrive)
        self.after(ANSWER_MS_MAX, message.give_up)

    def delay_ms(self) -> int:
        return self.rng.randrange(1, self._delay_ms_max + 1)

    def _wait_for_answer(
        self, member_id: str, group: ControllerGroup, term: int, index: int, event: AnyEvent
    ) -> None:
        def look() -> None:
            if self.members[member_id].group is not group or group.term != term:
                return  # nothing is answered
            if group.role == "leader" and group.committed >= index:
                assert self.answered.setdefault(index, event) == event, "two decisions"
            elif group.role == "leader":
                self.after(5, look)

        self.after(1, look)

    def _committed(self, index: int, event: AnyEvent | None) -> None:
        assert self.committed.setdefault(index, event) == event, f"two events at {index}"

    def _replaced(self, _tables: TablesSaved) -> None:
        """A snapshot: only of what was committed."""


class _Message:
    """A request from *sender* to *target*, and its answer; each may be late or lost."""

    def __init__(
        self,
        trio: GroupOfThree,
        sender: str,
        group: ControllerGroup,
        target: str,
        request: GroupRequest,
    ) -> None:
        self._trio = trio
        self._sender = sender
        self._group = group  # the process that sends
        self._target = target
        self._request = request
        self._is_over = False

    def arrive(self) -> None:
        other = self._trio.members[self._target].group
        if other is not None and not self._is_cut:
            self._trio.when_it_runs(self._target, partial(self._answer, other))

    def give_up(self) -> None:
        if self._ends():
            failed = partial(self._group.failed, self._target, self._request)
            self._trio.when_it_runs(self._sender, failed)

    def _answer(self, other: ControllerGroup) -> None:
        trio, member = self._trio, self._trio.members[self._target]
        if member.group is not other:
            return
        trio.steps += 1
        trio.on_step(trio.steps)
        if member.group is not other:
            return  # the step has ended it
        reply = other.handle(self._request, trio.now_ms)
        if other.log.is_long and other.committed == other.log.end:
            other.compact(TablesSaved())
        trio.after(trio.delay_ms(), partial(self._come_back, reply))

    def _come_back(self, reply: GroupReply) -> None:
        if not self._is_cut and self._ends():
            self._trio.when_it_runs(self._sender, partial(self._take, reply))

    def _take(self, reply: GroupReply) -> None:
        if self._trio.members[self._sender].group is self._group:
            self._group.answered(self._target, self._request, reply, self._trio.now_ms)

    @property
    def _is_cut(self) -> bool:
        return frozenset((self._sender, self._target)) in self._trio.cut

    def _ends(self) -> bool:
        was_over, self._is_over = self._is_over, True
        return not was_over
