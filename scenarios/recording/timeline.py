"""The timeline of a scenario that is recorded: its steps so far, its clock, and its problems.

A problem of one call does not end the recording, so that all problems are found: what a refused
argument would have set has its default, and a refused fault has no step.  ``unread`` has such
parts, so that their consequences are not shown as problems, too.
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from rocketmq_emulator.cluster.fault_values import Fault, LinkFault
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.scenarios.files.quantities import UNITS, parse, spelling
from rocketmq_emulator.scenarios.files.typed import CannotConvert, StructConverter
from rocketmq_emulator.scenarios.plan.plan import (
    FaultOrAction,
    Heal,
    Mark,
    Step,
    When,
    first_field,
    word_of,
)
from rocketmq_emulator.scenarios.plan.problems import Path, Problem
from rocketmq_emulator.scenarios.plan.unread import UnreadPart

P = TypeVar("P", bound=msgspec.Struct)
AWAIT = re.compile(r"\bawait\s+([\w.]+)\(")  # the name of the awaited verb


class NotRecordable(Misuse, ValueError):
    """A scenario makes a call that no plan can express; nothing was run."""


class RecordedStep:
    """A step that is still open: the duration of its fault is known when the fault ends."""

    def __init__(
        self,
        does: FaultOrAction,
        at_ms: int | None,
        when: When | None,
        after_ms: int,
        name: str,
        for_ms: int | None,
    ) -> None:
        self.line = self.when_line = 0  # of the scenario's file; 0: unknown
        self.does, self.at_ms, self.when, self.after_ms = does, at_ms, when, after_ms
        self.name, self.for_ms = name, for_ms

    def step(self) -> Step:
        """The step of the plan."""
        return Step(
            does=self.does,  # type: ignore[arg-type]
            at_ms=self.at_ms,
            when=self.when,
            after_ms=self.after_ms,
            for_ms=self.for_ms,
            name=self.name,
        )


class RecordedMoment:
    """A moment of the timeline: the epoch, and the time since its beginning."""

    def __init__(self, epoch: int, elapsed_ms: int) -> None:
        self.epoch, self.elapsed_ms = epoch, elapsed_ms


class RecordedTimeline:
    """Steps in the order in which they are recorded, and the recorded clock."""

    def __init__(self, file: str = "") -> None:
        self._file, self._waits_at = file, 0
        self.drafts: list[RecordedStep] = []
        self.ended = ""  # why it has ended; empty if it has not
        self._epoch, self._elapsed_ms, self._last_ms = 0, 0, 0
        self._waiting_for: When | None = None
        self.problems: list[Problem] = []  # of the arguments of calls
        self.unread: list[UnreadPart] = []
        self.awaited: list[tuple[str, Coroutine[Any, Any, object], int]] = []  # name, line

    @property
    def now_ms(self) -> int | None:
        """The recorded time in ms since the load began; None after the first ``until``."""
        return self._elapsed_ms if self._epoch == 0 else None

    @property
    def now(self) -> RecordedMoment:
        """The moment reached so far."""
        return RecordedMoment(self._epoch, self._elapsed_ms)

    def sleep(self, ms: int) -> None:
        """Move the recorded clock by *ms*."""
        self._check_open()
        if ms < 0:
            raise NotRecordable(f"a run cannot sleep {ms} ms")
        self._elapsed_ms += ms

    def until(self, when: When) -> None:
        """Begin an epoch: the next step waits for the fact of *when*."""
        self._check_open()
        if self._waiting_for is not None:
            self.add(Mark(text=f"after {self._waiting_for.kind}"))
        self._epoch, self._elapsed_ms, self._last_ms = self._epoch + 1, 0, 0
        self._waiting_for, self._waits_at = when, line_in(self._file)

    def add(self, does: FaultOrAction, name: str = "", for_ms: int | None = None) -> RecordedStep:
        """Record a step that does *does* now."""
        self._check_open()
        after_ms = 0 if self._epoch == 0 else self._elapsed_ms - self._last_ms
        draft = RecordedStep(does, self.now_ms, self._waiting_for, after_ms, name, for_ms)
        draft.line, draft.when_line = line_in(self._file), self._waits_at
        self._last_ms, self._waiting_for = self._elapsed_ms, None
        self.drafts.append(draft)
        return draft

    def check_awaited(self) -> bool:
        """Add a problem for each call that was not awaited; whether there is none."""
        forgotten = [
            (name, call, line)
            for name, call, line in self.awaited
            if inspect.getcoroutinestate(call) == inspect.CORO_CREATED
        ]
        for name, call, line in forgotten:
            call.close()
            text = f"run.{name} was not awaited, so nothing was done: write await run.{name}(…)"
            self.problems.append(Problem((), text, line))
        self.awaited.clear()
        return not forgotten

    def duration_ms(self, field: str, value: float | str | None) -> int | None:
        """*value* in ms: a number of ms, or a text such as "5s"; None if it is no duration."""
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        try:
            return int(parse(value, UNITS["ms"])) if isinstance(value, str) else round(value)
        except (ValueError, TypeError):
            self.refuse(f'{field} is a number of ms, or a text such as "5s", not {value!r}')
            return None

    def refuse(self, text: str) -> None:
        """Add a problem of the line that is being executed; the rest is recorded, too."""
        self.problems.append(Problem((), text, line_in(self._file)))

    def awaited_text(self) -> str:
        """What the line that is being executed awaits, as ``cluster.kill``; empty if unknown."""
        found = AWAIT.search(linecache.getline(self._file, line_in(self._file)))
        return found[1] if found else ""

    def leave_out(self, word: str) -> None:
        """Note that a fault or action, meant by *word*, has no step because it was refused."""
        at = ("timeline", len(self.drafts))
        self.unread.append(UnreadPart(at, None, frozenset((word,))))

    def made(
        self, kind: type[P], values: tuple[Any, ...], fields: Mapping[str, Any], *, place: Path
    ) -> P | None:
        """A *kind* from the positional *values* and the named *fields*; *place* is its path.

        Values that do not fit become ``problems``, and the result lacks them; None without a
        required one.
        """
        given = dict(fields)
        if len(values) > len(kind.__struct_fields__):
            self.refuse(_too_many(kind, values, str(place[-1])))
        if len(values) > 1 and issubclass(kind, LinkFault):
            self.refuse(_one_place(values, str(place[-1])))
            values = values[:1]
        if values:
            names = [first_field(kind, values[0]), *kind.__struct_fields__[1:]]
            given = {**dict(zip(names, values, strict=False)), **given}
        fitting = StructConverter()
        try:
            made = fitting.struct(kind, _lists(given), place)
        except CannotConvert:
            made = None
        line = line_in(self._file)
        self.problems += [each._replace(line=line) for each in fitting.problems]
        self.unread += fitting.unread
        return made

    def end(self, draft: RecordedStep, began: RecordedMoment) -> None:
        """End the fault of *draft*, which began at *began*."""
        assert isinstance(draft.does, Fault), "an action has no end"
        word = word_of(draft.does)
        if began.epoch == self._epoch:
            held_ms = self._elapsed_ms - began.elapsed_ms
            if held_ms == 0:
                self.refuse(f"{word} holds for no time: sleep inside its block")
            draft.for_ms = max(held_ms, 1)
            return
        draft.name = draft.name or self._free_name(word)
        self.add(Heal(step=draft.name))

    def finish(self, why: str) -> None:
        """Refuse further steps, because of *why*; a pending wait becomes a step ``mark``."""
        if self._epoch > 0 and (self._waiting_for is not None or self._elapsed_ms > self._last_ms):
            self.add(Mark(text=why))
        self.ended = why

    def steps(self) -> tuple[Step, ...]:
        """The recorded steps."""
        return tuple(draft.step() for draft in self.drafts)

    def _check_open(self) -> None:
        if self.ended:
            raise NotRecordable(f"nothing more can be done: {self.ended}")

    def _free_name(self, word: str) -> str:
        taken = {draft.name for draft in self.drafts}
        return next(
            name for number in range(1, 10_000) if (name := f"{word}-{number}") not in taken
        )


# Helpers --------------------------------------------------------------------------------------


def line_in(file: str) -> int:
    """The line of *file* that is being executed, in its innermost call; 0 if none is."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_filename == file:
            return frame.f_lineno
        frame = frame.f_back
    return 0


def _lists(value: object) -> object:
    """*value* with its tuples as lists, as in a file."""
    if isinstance(value, Mapping):
        return {name: _lists(part) for name, part in value.items()}
    return [_lists(part) for part in value] if isinstance(value, list | tuple) else value


def _one_place(values: tuple[Any, ...], word: str) -> str:
    """What to write instead of a link fault with *values*: it takes one node, or a pair."""
    pair = [value for value in values if isinstance(value, str)]
    if len(pair) == 2 and len(values) == 2:
        return f"{word} takes one place: for the link between two nodes write {word}({pair!r})"
    more = ", ".join(map(repr, values[1:]))
    return f"{word} takes one place, and not also {more}: name its other values, as ms=200"


def _too_many(kind: type[msgspec.Struct], values: tuple[Any, ...], word: str) -> str:
    names = [spelling(field).plain for field in kind.__struct_fields__]
    more = ", ".join(map(repr, values[len(names) :]))
    text = f"{word} takes {', '.join(names)}, and not also {more}"
    if not issubclass(kind, Fault):
        return text
    return f'{text}; a fault lasts as long as its with block, or for_ms="5s"'
