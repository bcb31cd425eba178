"""Faults of a world in real time: its verbs block, timers end faults when their time is up.

Loaded with every real cluster, so it imports the rest only when the first fault begins: a
cluster without faults starts as fast as without this module.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rocketmq_emulator.facts.logs import LOGGER

if TYPE_CHECKING:
    from rocketmq_emulator.cluster.fault_values import AnyFault, FaultState, Reason
    from rocketmq_emulator.cluster.faults.register import FaultRegister
    from rocketmq_emulator.cluster.world import World
    from rocketmq_emulator.disk.line_file import LineFile
    from rocketmq_emulator.facts import Fact
    from rocketmq_emulator.facts.journal import Entry, Journal, Listener

JOURNAL_BYTES_MAX, JOURNAL_FILES_MAX = 64 * 1024 * 1024, 4

T = TypeVar("T")


class SystemClock:
    """The clock of this machine, outside of any ``trio.run``."""

    def now_ms(self) -> int:
        """Wall time in ms."""
        return time.time_ns() // 1_000_000

    def mono_us(self) -> int:
        """Monotonic time in µs, by which journals of several processes are merged."""
        return time.monotonic_ns() // 1_000


def run_without_waiting(work: Coroutine[Any, Any, T]) -> T:
    """The result of *work*, which never suspends, because the world's verbs block."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("a verb of a world that blocks returned an awaitable")


class RealTimeFaults:
    """The faults of *world*; facts go to ``world.jsonl`` in the folder *journal*, if given."""

    def __init__(self, world: World, journal: str) -> None:
        self._world = world
        self._folder = journal
        self._clock = SystemClock()
        self._lock = threading.RLock()  # for the journal and the objects made at first use
        self._file: LineFile | None = None
        self._journal: Journal | None = None
        self.facts_left_out = 0  # of the journal, once it was closed
        self._register: FaultRegister | None = None
        self._timers: dict[int, threading.Timer] = {}

    def begin(self, fault: AnyFault, for_ms: int | None) -> int:
        """As ``World.begin_fault``."""
        world, now_ms = self._world, self._clock.now_ms()
        known = list(world.known_names)
        if world.links is not None:
            known += [name for name in world.links.client_names() if name not in known]
        fault_id = run_without_waiting(self._held().begin(fault, known, now_ms, for_ms))
        if for_ms is not None:
            self._end_in(fault_id, for_ms)
        return fault_id

    def end(self, fault_id: int, reason: Reason) -> bool:
        """As ``World.end_fault``."""
        if (timer := self._timers.pop(fault_id, None)) is not None:
            timer.cancel()
        return run_without_waiting(self._held().end(fault_id, reason))

    def end_all(self, reason: Reason) -> tuple[int, ...]:
        """As ``World.end_faults``."""
        if self._register is None:
            return ()
        while self._timers:
            self._timers.popitem()[1].cancel()
        return run_without_waiting(self._register.end_all(reason))

    def states(self) -> tuple[FaultState, ...]:
        """As ``World.faults``."""
        if self._register is None:
            return ()
        with suppress(OSError):  # a node that is just ending
            run_without_waiting(self._register.recount())
        return self._register.states(self._clock.now_ms())

    def started(self, names: Iterable[str]) -> None:
        """Report that these nodes were started."""
        if self._register:
            run_without_waiting(self._register.started(names))

    def resumed(self, name: str) -> None:
        """Report that the node was resumed."""
        if self._register is not None:
            run_without_waiting(self._register.resumed(name))

    def rule_applied(self, entry: Entry) -> None:
        """Count a ``ReplyRuleApplied`` of a node."""
        if self._register:
            rule_id: int = entry.fact.rule_id  # type: ignore[attr-defined]  # see above
            self._register.rule_applied(entry.node, rule_id)

    def note(self, fact: Fact) -> None:
        """Write *fact* under the node name ``world``."""
        with self._lock:
            self._open_journal().note(fact)

    def note_verb(self, verb: Literal["kill", "pause", "resume"], names: Iterable[str]) -> None:
        """Note what *verb* does to these nodes, if there is a journal or a listener.

        So that no fact of a node stands behind its pause or before its resumption: note a pause
        when it is done, the others before.
        """
        if self._folder or self._journal is not None:
            from rocketmq_emulator.facts.faults import FACT_OF_VERB  # noqa: PLC0415  # see above

            for name in names:
                self.note(FACT_OF_VERB[verb](name))

    def listen(self, listener: Listener) -> None:
        """Call *listener* with later entries, in the thread that notes them."""
        with self._lock:
            self._open_journal().listen(listener)

    def unlisten(self, listener: Listener) -> None:
        """Stop calling *listener*."""
        with self._lock:
            if self._journal is not None:
                self._journal.unlisten(listener)

    def close(self) -> None:
        """End all faults with the cluster: undo changes that outlast processes, start no node."""
        try:
            if self._register is not None:
                while self._timers:
                    self._timers.popitem()[1].cancel()
                run_without_waiting(self._register.end_with_world())
        finally:
            with self._lock:
                if self._journal is not None:
                    self._journal.close()
                    self.facts_left_out += self._journal.left_out
                file, self._file, self._journal = self._file, None, None
                if file is not None:
                    file.close()

    # Inside ---------------------------------------------------------------------------

    def _end_in(self, fault_id: int, for_ms: int) -> None:
        def end() -> None:
            if self._timers.pop(fault_id, None) is None:
                return
            try:
                self.end(fault_id, "time is up")
            except Exception:  # no caller could handle it
                text = "fault %d ended, but undoing its changes failed"
                logging.getLogger(LOGGER).exception(text, fault_id)

        timer = self._timers[fault_id] = threading.Timer(for_ms / 1_000, end)
        timer.name, timer.daemon = f"fault {fault_id}", True
        timer.start()

    def _held(self) -> FaultRegister:
        with self._lock:
            if self._register is None:
                from rocketmq_emulator.cluster.faults.register import FaultRegister  # noqa: PLC0415  # see above

                self._register = FaultRegister(self._world, self.note)
            return self._register

    def _open_journal(self) -> Journal:
        if self._journal is None:
            from rocketmq_emulator.facts.journal import WORLD_NODE, Journal  # noqa: PLC0415  # see above

            if self._folder:
                from rocketmq_emulator.disk.line_file import LineFile  # noqa: PLC0415  # see above

                Path(self._folder).mkdir(parents=True, exist_ok=True)
                self._file = LineFile(
                    Path(self._folder) / f"{WORLD_NODE}.jsonl",
                    bytes_max=JOURNAL_BYTES_MAX,
                    files_max=JOURNAL_FILES_MAX,
                )
            self._journal = Journal.to_file(WORLD_NODE, self._clock, self._file)
        return self._journal
