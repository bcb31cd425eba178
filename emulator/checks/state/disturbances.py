"""Disturbances of nodes: times of faults, and of processes that ended or began.

Checkers that excuse something because of a fault ask here, with the nodes and the time that the
fault may explain: ``touched`` whether there was a fault, ``undisturbed_us`` whether it was over
for so long that it explains nothing any more.  Times are ``mono_us``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

import msgspec

from rocketmq_emulator.facts import FaultBegan, FaultEnded

CLOCK_FAULTS = frozenset({"clock_jump", "clock_drift"})
PROCESS_ENDING = frozenset({"kill", "stop", "power_off"})  # faults that end a process
CONNECTION_CLOSING = PROCESS_ENDING - {"power_off"}  # the machine runs and closes them
DISK_FAULTS = frozenset({"full_disk", "slow_disk", "failing_flush"})
Span: TypeAlias = tuple[int, int]  # from and until when, in mono_us


class FaultInterval(msgspec.Struct):
    """A fault that began, and ended unless ``ended_us`` is None."""

    word: str
    nodes: tuple[str, ...]
    began_us: int
    ended_us: int | None = None
    clock_ms: float = float("inf")  # clock jump; inf if it is not known
    clock_ppm: float = float("inf")  # clock drift

    def held(self, since_us: int, until_us: int) -> bool:
        """Whether it held at some moment in that time."""
        ended_us = until_us if self.ended_us is None else self.ended_us
        return self.began_us <= until_us and ended_us >= since_us


class Disturbances:
    """All disturbances of a run up to now."""

    def __init__(self) -> None:
        self.faults: dict[int, FaultInterval] = {}  # those that hold
        self.all_faults: list[FaultInterval] = []
        self.healed_us: int | None = None  # when the last fault ended
        self._restarts: dict[str, list[int]] = {}  # by node: when a process of it ended or began
        self._ended_us: dict[str, int] = {}  # by node: when its last process ended
        self._began_us: dict[str, int] = {}  # by node: when its newest process began
        self._lives: dict[str, list[tuple[int, int]]] = {}  # by node: of processes that ended
        self._gone: set[str] = set()  # nodes whose process ended, and none began since

    # Queries ------------------------------------------------------------------------------

    def touched(self, nodes: Collection[str], since_us: int, until_us: int) -> bool:
        """Whether in that time a fault named one of *nodes*, or its process ended or began."""
        for node in nodes:
            if any(since_us <= at_us <= until_us for at_us in self._restarts.get(node, ())):
                return True
        asked = set(nodes)
        return any(
            not asked.isdisjoint(fault.nodes) and fault.held(since_us, until_us)
            for fault in self.all_faults
        )

    def disturbed(self, nodes: Collection[str], since_us: int, until_us: int) -> bool:
        """As ``touched``, but the first start of a node does not count."""
        asked = set(nodes)
        restarts = (at_us for node in asked for at_us in self._restarts.get(node, ())[1:])
        return any(since_us <= at_us <= until_us for at_us in restarts) or any(
            not asked.isdisjoint(fault.nodes) and fault.held(since_us, until_us)
            for fault in self.all_faults
        )

    def undisturbed_us(
        self,
        nodes: Collection[str],
        since_us: int,
        until_us: int,
        spans: Iterable[Span] = (),
    ) -> int:
        """The longest time between without a disturbance of *nodes*; *spans* count as such."""
        asked = set(nodes)
        disturbed = [
            *((at_us, at_us) for node in nodes for at_us in self._restarts.get(node, ())),
            *(
                (fault.began_us, until_us if fault.ended_us is None else fault.ended_us)
                for fault in self.all_faults
                if not asked.isdisjoint(fault.nodes)
            ),
            *spans,
        ]
        longest_us, at_us = 0, since_us
        for began_us, ended_us in sorted(disturbed):
            longest_us = max(longest_us, min(began_us, until_us) - at_us)
            at_us = max(at_us, ended_us)
        return max(longest_us, until_us - at_us)

    def last_touched_us(
        self, nodes: Collection[str], now_us: int, *, but: Collection[str] = ()
    ) -> int:
        """The last moment up to now in which one of *nodes* was touched; 0: never.

        Faults in *but* do not count.
        """
        last_us = self.last_restart_us(nodes)
        asked = set(nodes)
        for fault in reversed(self.all_faults):  # stops at the first that ended earlier
            at_us = now_us if fault.ended_us is None else fault.ended_us
            if at_us > last_us and not asked.isdisjoint(fault.nodes) and fault.word not in but:
                last_us = at_us
        return last_us

    def last_restart_us(self, nodes: Iterable[str]) -> int:
        """When a process of one of *nodes* ended or began last; 0: never."""
        restarts = self._restarts
        return max((max(restarts[node]) for node in nodes if node in restarts), default=0)

    def held_by(self, node: str) -> list[FaultInterval]:
        """The faults that hold and touch *node*."""
        return [fault for fault in self.faults.values() if node in fault.nodes]

    def is_disturbed_since(self, since_us: int) -> bool:
        """Whether some fault holds, or held after *since_us*."""
        healed_us = self.healed_us
        return bool(self.faults) or (healed_us is not None and healed_us > since_us)

    def is_gone(self, node: str) -> bool:
        """Whether the process on *node* has ended, and none has begun since."""
        return node in self._gone

    def ended_us(self, node: str, now_us: int) -> int:
        """When the process on *node* ended that ran before the one that runs now."""
        return self._ended_us.get(node, now_us)

    def ends_us(self, node: str, lived_us: int) -> Iterator[int]:
        """When the last process of *node* ended, and those before it up to one that was kept.

        A process that lived shorter than *lived_us* had not written yet what it writes then: the
        next one resumes from what the process before had written.
        """
        for began_us, ended_us in reversed(self._lives.get(node, ())):
            yield ended_us
            if ended_us - began_us >= lived_us:
                return

    def written_since_us(self, node: str, until_us: int, every_us: int) -> int:
        """The earliest time of the state that is on the disk of *node* at *until_us*.

        *node* writes every *every_us*; only a disk fault in the last interval makes it older.
        """
        since_us = until_us - every_us
        for fault in reversed(self.all_faults):
            if (
                fault.word in DISK_FAULTS
                and node in fault.nodes
                and fault.held(since_us, until_us)
            ):
                since_us = min(since_us, fault.began_us - every_us)
        return since_us

    def clock_moved_us(self, node: str, since_us: int, until_us: int) -> float:
        """By how much the clock of *node* was moved, or corrected, in that time; 0: not at all.

        A jump counts when it happens and when it is undone, a drift for as long as it lasts.
        """
        moved_us = 0.0
        for fault in self.all_faults:
            if fault.word not in CLOCK_FAULTS or node not in fault.nodes:
                continue
            turns = (fault.began_us, fault.ended_us)
            jumps = sum(1 for at in turns if at is not None and since_us <= at <= until_us)
            if fault.word == "clock_jump" and jumps:
                moved_us += jumps * abs(fault.clock_ms) * 1_000
            elif fault.word == "clock_drift" and fault.held(since_us, until_us):
                ended_us = until_us if fault.ended_us is None else fault.ended_us
                lasted_us = min(until_us, ended_us) - max(since_us, fault.began_us)
                moved_us += abs(fault.clock_ppm) * max(lasted_us, 1) / 1e6
        return moved_us

    def clock_moved(self, node: str, since_us: int, until_us: int) -> bool:
        """Whether the clock of *node* was moved at all in that time."""
        return self.clock_moved_us(node, since_us, until_us) > 0

    def clock_went_back(self, node: str, since_us: int, until_us: int) -> bool:
        """Whether the clock of *node* was set back in that time: by a jump, or the end of one."""
        for fault in self.all_faults:
            if fault.word not in CLOCK_FAULTS or node not in fault.nodes:
                continue
            by = fault.clock_ms if fault.word == "clock_jump" else fault.clock_ppm
            back_us = fault.ended_us if by > 0 else fault.began_us
            if back_us is not None and since_us <= back_us <= until_us:
                return True
        return False

    # Handlers -----------------------------------------------------------------------------

    def process_begins(self, node: str, at_us: int) -> None:
        """A new process runs on *node*."""
        self._restarts.setdefault(node, []).append(at_us)
        self._began_us[node] = at_us
        self._gone.discard(node)

    def process_ends(self, node: str, at_us: int) -> None:
        """The process on *node* has ended."""
        self._restarts.setdefault(node, []).append(at_us)
        self._ended_us[node] = at_us
        lives = self._lives.setdefault(node, [])
        began_us = self._began_us.pop(node, 0)
        if node in self._gone and lives:  # told twice, by its fault and by itself
            began_us = lives.pop()[0]
        lives.append((began_us, at_us))
        self._gone.add(node)

    def fault_begins(self, fact: FaultBegan, at_us: int) -> None:
        """The fault holds from *at_us* on."""
        held = _held_of(fact, at_us)
        self.faults[fact.fault_id] = held
        self.all_faults.append(held)
        if held.word in PROCESS_ENDING:
            for node in fact.nodes:
                self.process_ends(node, at_us)

    def role_moves(self, name: str, left: str, after: Callable[[str], str], at_us: int) -> None:
        """Faults of the former master of *name* hold for *left*; not for the name if it ended.

        *after* gives the name of a node after the move.
        """
        for fault_id, fault in list(self.faults.items()):
            if name not in fault.nodes:
                continue
            if fault.word not in PROCESS_ENDING:
                fault.nodes = (*fault.nodes, left)
            else:
                fault.ended_us = at_us
                nodes = tuple(map(after, fault.nodes))
                held = FaultInterval(fault.word, nodes, at_us)
                self.faults[fault_id] = held
                self.all_faults.append(held)

    def fault_ends(self, fact: FaultEnded, at_us: int) -> None:
        """The fault ended at *at_us*."""
        if (fault := self.faults.pop(fact.fault_id, None)) is not None:
            fault.ended_us = self.healed_us = at_us


class _FaultFields(msgspec.Struct, frozen=True):
    """The fields of a fault that checkers read."""

    fault: str = ""
    ms: float = float("inf")
    ppm: float = float("inf")


def _held_of(fact: FaultBegan, now_us: int) -> FaultInterval:
    try:
        found = msgspec.json.decode(fact.fault, type=_FaultFields)
    except msgspec.MsgspecError:
        found = _FaultFields()
    return FaultInterval(found.fault, fact.nodes, now_us, clock_ms=found.ms, clock_ppm=found.ppm)
