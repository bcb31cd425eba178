"""``Run``, the argument of a Python scenario: it is used like a run, and records a plan.

    async def a_broker_turns_read_only(run: Run) -> None:
        cluster = await run.cluster(brokers=2, topics={"orders": 4})
        with run.load("orders", rate=200), cluster.read_only("broker-b"):
            await run.sleep(60)

Arguments are the fields of ``scenarios.plan.plan``, with or without a unit in the name, as in a
file: ``size="1KiB"`` or ``size_bytes=1024``.  Until the first ``run.until`` every step has a time.
After it only the time since that fact is known; the time between two calls of ``run.until`` is an
epoch.  A fault that begins in one epoch and ends in another is ended by a step ``heal``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from rocketmq_emulator.client.consumer.group.allocation import Strategy
from rocketmq_emulator.cluster.fault_values import Fault
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.scenarios.files.quantities import UNITS, parse
from rocketmq_emulator.scenarios.files.reading import ALL_TAGS
from rocketmq_emulator.scenarios.files.typed import CannotConvert, StructConverter
from rocketmq_emulator.scenarios.plan.plan import (
    WORDS,
    ClusterPlan,
    ConsumersPlan,
    Expectation,
    FaultOrAction,
    Heal,
    Limits,
    LoadPlan,
    Mark,
    Plan,
    ProgramPlan,
    Step,
    TopicPlan,
    When,
    first_field,
    word_of,
)
from rocketmq_emulator.scenarios.plan.problems import Path
from rocketmq_emulator.scenarios.plan.strategies import STRATEGIES
from rocketmq_emulator.scenarios.plan.validity import spec_of
from rocketmq_emulator.text.suggestions import suggestion

P = TypeVar("P", bound=msgspec.Struct)


class RecordedFault:
    """A fault that began: it ends with its ``with`` block, by ``heal``, or with the run."""

    def __init__(self, line: RecordedTimeline, draft: RecordedStep) -> None:
        self._line, self._draft = line, draft
        self._began = line.now
        self._is_over = False

    def heal(self) -> None:
        """End the fault now, unless it has an end."""
        if not self._is_over and self._draft.for_ms is None:
            self._line.end(self._draft, self._began)
        self._is_over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.heal()


class FaultsAndActions:
    """Each fault and action as a method: ``kill("broker-b")``, ``slow_link(around="x", ms=9)``."""

    def __init__(self, line: RecordedTimeline) -> None:
        self._line = line

    def __getattr__(self, word: str) -> Callable[..., RecordedFault]:
        if word.startswith("_"):
            raise AttributeError(word)
        if word not in WORDS:
            text = f"a scenario cannot {word!r}{suggestion(word, [*WORDS, *_methods(self)])}"
            hint = "it is recorded, nothing runs yet, so there is no state to read"
            raise NotRecordable(f"{text}; {hint}")

        def begin(
            *values: object, name: str = "", for_ms: int | None = None, **fields: object
        ) -> RecordedFault:
            return self._begin(_made(WORDS[word], values, fields, word), name, for_ms)

        return begin

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *WORDS})

    def _begin(
        self, does: FaultOrAction, name: str = "", for_ms: int | None = None
    ) -> RecordedFault:
        if for_ms is not None and not isinstance(does, Fault):
            raise NotRecordable("an action is done at once: it has no end")
        return RecordedFault(self._line, self._line.add(does, name, for_ms))


class RecordedCluster(FaultsAndActions):
    """The cluster of a scenario that is recorded: names of servers, faults and actions."""

    def __init__(self, line: RecordedTimeline, plan: ClusterPlan) -> None:
        super().__init__(line)
        spec = spec_of(plan)
        self.broker_names = spec.broker_names if spec else ()
        self.name_server_names = spec.name_server_names if spec else ()


class RecordedGroup(FaultsAndActions):
    """A consumer group of a scenario that is recorded."""

    def __init__(self, line: RecordedTimeline, group: str, members: int, first: int = 1) -> None:
        super().__init__(line)
        self.group, self._members, self._first = group, members, first

    @property
    def members(self) -> tuple[str, ...]:
        """Names of the members, also of those that have left."""
        numbers = range(self._first, self._first + self._members)
        return tuple(f"{self.group}-{number}" for number in numbers)

    def grow(self, members: int = 1) -> tuple[str, ...]:
        """Let *members* more join now; returns their names."""
        self.join(self.group, members=members)
        self._members += members
        return self.members[-members:]


class Run(FaultsAndActions):
    """See the module.  Methods raise ``NotRecordable`` for calls that no plan can express."""

    def __init__(self, file: str = "") -> None:
        """*file* is the scenario's: problems of a part of the plan name a line of it."""
        super().__init__(RecordedTimeline(file))
        self._file = file
        self._called_at: dict[Path, int] = {}
        self._expected_at: list[tuple[Expectation, int]] = []
        self._fields: dict[str, Any] = {"topics": {}, "expect": ()}
        self._parts: dict[str, list[Any]] = {"consumers": [], "load": [], "programs": []}

    # Servers, topics and clients -----------------------------------------------------------

    async def cluster(
        self, topics: Mapping[str, object] | None = None, **fields: object
    ) -> RecordedCluster:
        """Start servers, by the fields of ``ClusterPlan``; *topics*: queues or fields by name."""
        if "cluster" in self._fields:
            raise NotRecordable("a scenario has one cluster")
        self._fields["cluster"] = plan = _made(ClusterPlan, (), fields, "cluster")
        self._note_line("cluster")
        for name, topic in (topics or {}).items():
            self.topic(name, topic)
        return RecordedCluster(self._line, plan)

    def topic(self, name: str, queues: object = None, **fields: object) -> None:
        """Create a topic before the run begins, by the fields of ``TopicPlan``."""
        given = {} if queues is None else queues if isinstance(queues, Mapping) else None
        if given is None:
            fields = {"queues": queues, **fields} if isinstance(queues, int) else fields
        whole = queues if isinstance(queues, TopicPlan) else None
        topic = whole or _made(TopicPlan, (), {**(given or {}), **fields}, "topic")
        self._fields["topics"][name] = topic
        self._note_line("topics", name)

    async def consumers(
        self,
        group: str,
        *,
        topic: str = "",
        tags: str = ALL_TAGS,
        strategy: str | Strategy = "averagely",
        **fields: object,
    ) -> RecordedGroup:
        """Start members of a group now, by the fields of ``ConsumersPlan``."""
        if topic:
            fields["topics"] = {topic: tags}
        if (now_ms := self._line.now_ms) is None:
            raise NotRecordable("a group starts at a time: after run.until use join")
        fields = {"starts_ms": now_ms, **fields, "strategy": _name_of(strategy)}
        plan = _made(ConsumersPlan, (group,), fields, "consumers")
        others = sum(each.members for each in self._parts["consumers"] if each.group == group)
        self._note_line("consumers", len(self._parts["consumers"]))
        self._parts["consumers"].append(plan)
        return RecordedGroup(self._line, group, plan.members, 1 + others)

    def load(self, topic: str, rate: float | str, **fields: object) -> _RecordedLoad:
        """Send messages from now on, by the fields of ``LoadPlan``; a ``with`` block ends them."""
        if (now_ms := self._line.now_ms) is None:
            raise NotRecordable("a load begins at a time, so before run.until")
        plan = _made(LoadPlan, (topic,), {"rate": rate, "from_ms": now_ms, **fields}, "load")
        self._note_line("load", len(self._parts["load"]))
        self._parts["load"].append(plan)
        return _RecordedLoad(self._line, self._parts["load"])

    def program(
        self,
        name: str,
        run: str | Callable[..., object],
        arguments: Mapping[str, object] | None = None,
        starts_ms: int | None = None,
    ) -> None:
        """Start a client program of your own: ``module:function``, or the function itself."""
        if callable(run):
            run = f"{run.__module__}:{run.__qualname__}"
        if starts_ms is None:
            starts_ms = self._line.now_ms
        if starts_ms is None:
            raise NotRecordable("a program starts at a time, so before run.until")
        fields = {"run": run, "arguments": dict(arguments or {}), "starts_ms": starts_ms}
        self._note_line("programs", len(self._parts["programs"]))
        self._parts["programs"].append(_made(ProgramPlan, (name,), fields, "program"))

    # Times -----------------------------------------------------------------------------------

    async def sleep(self, seconds: float | str) -> None:
        """Move the recorded clock by *seconds*, or by a text such as "200ms"."""
        self._line.sleep(_ms(seconds))

    async def until(self, when: When) -> None:
        """Wait for a fact: ``fact("QueuesClaimed", node="billing-3")``."""
        self._line.until(when)

    async def until_quiet(
        self, wait_s_max: float | str = 300, *, settled: float | str = 40
    ) -> None:
        """End the run when it is quiet, after at most *wait_s_max*; no step may follow.

        *settled*: how long no queue has changed its owner by then.
        """
        self._line.finish("until it is quiet")
        self._fields |= {"lasts_ms": None, "quiet_ms_max": _ms(wait_s_max)}
        self._fields["settled_ms"] = _ms(settled)
        for name in ("quiet_ms_max", "settled_ms"):
            self._note_line(name)

    def lasts(self, seconds: float | str) -> None:
        """End the run *seconds* after its start, even if messages are left to consume."""
        self._fields["lasts_ms"] = _ms(seconds)
        self._note_line("lasts_ms")

    # Faults, expectations and limits -----------------------------------------------------------

    def fault(self, fault: Fault, for_ms: int | None = None, name: str = "") -> RecordedFault:
        """Begin a fault that is given as a value: ``with run.fault(Kill(node="broker-b")):``."""
        return self._begin(fault, name, for_ms)

    def expect(self, *expectations: Expectation) -> None:
        """Expect values of metrics at the end of the run, besides the checkers' rules."""
        for each in expectations:
            if not isinstance(each, Expectation):
                text = "compare a metric with ==, <= or >=: idle_members('billing') == 0"
                raise NotRecordable(f"{each!r} is no expectation; {text}")
        line = line_in(self._file)
        both = [*self._expected_at, *((each, line) for each in expectations)]
        scopes = list(dict.fromkeys(["", *(each.scope for each, _ in both)]))
        self._expected_at = sorted(both, key=lambda each: scopes.index(each[0].scope))
        self._fields["expect"] = tuple(each for each, _ in self._expected_at)

    def quirks(self, *names: str) -> None:
        """Switch on bugs in clients and brokers by name."""
        self._fields["quirks"] = names
        self._note_line("quirks")

    def limits(self, **fields: object) -> None:
        """Set the limits of the run, by the fields of ``Limits``."""
        self._fields["limits"] = _made(Limits, (), fields, "limits")
        self._note_line("limits")

    def _plan(self, **fields: object) -> Plan:
        """The recorded plan; *fields* are its name, title and parameters."""
        line = self._line
        if "lasts_ms" not in self._fields:
            if line.now_ms is None:
                text = "await run.until_quiet() at the end: after run.until the time is not known"
                raise NotRecordable(text)
            self._fields["lasts_ms"] = line.now_ms or None
        parts = {name: tuple(parts) for name, parts in self._parts.items()}
        return Plan(**{**self._fields, **parts, **fields, "timeline": line.steps()})

    def _note_line(self, *path: str | int) -> None:
        self._called_at[path] = line_in(self._file)

    def _lines(self) -> Mapping[Path, int]:
        """The line of the call that recorded each part of the plan, by its path."""
        lines = dict(self._called_at)
        for at, (_, line) in enumerate(self._expected_at):
            lines["expect", at] = line
        for at, draft in enumerate(self._line.drafts):
            lines["timeline", at] = draft.line
            if draft.when is not None:
                lines["timeline", at, "when"] = draft.when_line
        return {path: line for path, line in lines.items() if line}


def line_in(file: str) -> int:
    """The line of *file* that is being executed, in its innermost call; 0 if none is."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_filename == file:
            return frame.f_lineno
        frame = frame.f_back
    return 0


class _RecordedLoad:
    """The last recorded load; leaving its ``with`` block ends it."""

    def __init__(self, line: RecordedTimeline, load: list[LoadPlan]) -> None:
        self._line, self._load, self._at = line, load, len(load) - 1

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is not None:
            return
        if (now_ms := self._line.now_ms) is None:
            self._line.finish(f"the load of {self._load[self._at].topic} ends with the timeline")
        else:
            self._load[self._at] = msgspec.structs.replace(self._load[self._at], until_ms=now_ms)


def fact(kind: str, node: str = "", wait: float | str = 120, **fields: object) -> When:
    """The next fact of *kind*, for ``run.until``; it must be noted within *wait* seconds."""
    return When(kind=kind, node=node, fields=fields, wait_ms_max=_ms(wait))


@contextmanager
def _plain_problems(what: str, fitting: StructConverter) -> Iterator[None]:
    try:
        yield
    except CannotConvert:
        problem = fitting.problems[0]
        field = ".".join(part for part in problem.path if isinstance(part, str))
        raise NotRecordable(f"{what}: {field}: {problem.text}") from None


def _made(kind: type[P], values: tuple[Any, ...], fields: Mapping[str, Any], what: str) -> P:
    """A *kind* from the positional *values* and the named *fields*."""
    given = dict(fields)
    if values:
        names = [first_field(kind, values[0]), *kind.__struct_fields__[1:]]
        given = {**dict(zip(names, values, strict=False)), **given}
    fitting = StructConverter()
    with _plain_problems(what, fitting):
        return fitting.struct(kind, _lists(given), ())
    raise AssertionError("either it fits or it does not")


def _lists(value: object) -> object:
    """*value* with its tuples as lists, as in a file."""
    if isinstance(value, Mapping):
        return {name: _lists(part) for name, part in value.items()}
    return [_lists(part) for part in value] if isinstance(value, list | tuple) else value


def _ms(seconds: float | str) -> int:
    if isinstance(seconds, str):
        return int(parse(seconds, UNITS["ms"]))
    return round(seconds * 1_000)


def _name_of(strategy: str | Strategy) -> str:
    if isinstance(strategy, str):
        return strategy
    for name, known in STRATEGIES.items():
        if known == strategy or known.name == strategy.name:
            return name
    raise NotRecordable(f"the strategy {strategy.name} has no name here: write module:function")


def _methods(words: FaultsAndActions) -> list[str]:
    return [name for name in dir(type(words)) if not name.startswith("_")]


# The recorded timeline ----------------------------------------------------------------


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

    def end(self, draft: RecordedStep, began: RecordedMoment) -> None:
        """End the fault of *draft*, which began at *began*."""
        assert isinstance(draft.does, Fault), "an action has no end"
        word = word_of(draft.does)
        if began.epoch == self._epoch:
            held_ms = self._elapsed_ms - began.elapsed_ms
            if held_ms == 0:
                raise NotRecordable(f"{word} holds for no time: sleep inside its block")
            draft.for_ms = held_ms
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
