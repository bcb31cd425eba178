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

import functools
import typing
from collections.abc import Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from rocketmq_emulator.client.consumer.group.allocation import Strategy
from rocketmq_emulator.cluster.fault_values import Fault
from rocketmq_emulator.protocol.messages.subscription import SQL92, expression_text
from rocketmq_emulator.scenarios.files.quantities import UNITS, parse
from rocketmq_emulator.scenarios.files.reading import ALL_TAGS
from rocketmq_emulator.scenarios.plan.plan import (
    WORDS,
    ClusterPlan,
    ConsumersPlan,
    Expectation,
    FaultOrAction,
    Limits,
    LoadPlan,
    Plan,
    ProgramPlan,
    TopicPlan,
    When,
    word_of,
)
from rocketmq_emulator.scenarios.plan.problems import Path
from rocketmq_emulator.scenarios.plan.strategies import STRATEGIES
from rocketmq_emulator.scenarios.plan.validity import spec_of
from rocketmq_emulator.scenarios.recording.timeline import (
    NotRecordable,
    RecordedStep,
    RecordedTimeline,
    line_in,
)
from rocketmq_emulator.text.suggestions import nearest, suggestion

M = TypeVar("M", bound=Callable[..., Coroutine[Any, Any, object]])


def _is_awaited(method: M) -> M:
    """Make *method* of ``Run`` one whose calls without ``await`` are found, with their line."""

    @functools.wraps(method)
    def called(run: Run, *values: object, **fields: object) -> Coroutine[Any, Any, object]:
        made = method(run, *values, **fields)
        line = line_in(run._file)  # noqa: SLF001  # its own class
        run._line.awaited.append((method.__name__, made, line))  # noqa: SLF001
        return made

    return typing.cast("M", called)


class RecordedFault:
    """A fault that began: it ends with its ``with`` block, by ``heal``, or with the run."""

    def __init__(self, line: RecordedTimeline, draft: RecordedStep | None) -> None:
        """*draft* is None if the call was refused: then there is no step to end."""
        self._line, self._draft = line, draft
        self._began = line.now
        self._is_over = False

    def heal(self) -> None:
        """End the fault now, unless it has an end."""
        if not self._is_over and self._draft is not None and self._draft.for_ms is None:
            self._line.end(self._draft, self._began)
        self._is_over = True

    def __await__(self) -> Generator[None, None, Self]:
        """Refused: it takes no time, so there is nothing to wait for."""
        word = "it" if self._draft is None else word_of(self._draft.does)
        written = self._line.awaited_text() or f"run.{word}"
        self._line.refuse(
            f"{word} takes no time and is not awaited: write {written}(…), without await; "
            "to let time pass, await run.sleep(…)"
        )
        return self
        yield  # a generator, as __await__ must be

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
            known = [*WORDS, *_methods(self)]
            hint = "it is recorded, nothing runs yet, so there is no state to read"
            text = f"a scenario cannot {word!r}{suggestion(word, known)}; {hint}"
            if nearest(word, known) not in WORDS:
                raise NotRecordable(text)
            self._line.refuse(text)
            self._line.leave_out(nearest(word, known))
            return lambda *_, **__: RecordedFault(self._line, None)

        def begin(
            *values: object, name: str = "", for_ms: float | str | None = None, **fields: object
        ) -> RecordedFault:
            line = self._line
            place = ("timeline", len(line.drafts), word)
            made = line.made(WORDS[word], values, fields, place=place)
            if made is None:
                line.leave_out(word)
                return RecordedFault(line, None)
            return self._begin(made, name, line.duration_ms("for_ms", for_ms))

        return begin

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *WORDS})

    def _begin(
        self, does: FaultOrAction, name: str = "", for_ms: int | None = None
    ) -> RecordedFault:
        if for_ms is not None and not isinstance(does, Fault):
            self._line.refuse(f"{word_of(does)} is an action, done at once: it has no end")
            for_ms = None
        return RecordedFault(self._line, self._line.add(does, name, for_ms))


class RecordedCluster(FaultsAndActions):
    """The cluster of a scenario that is recorded: names of servers, faults and actions."""

    def __init__(self, line: RecordedTimeline, plan: ClusterPlan) -> None:
        super().__init__(line)
        spec = spec_of(plan)
        self.broker_names = spec.broker_names if spec else ()
        self.name_server_names = spec.name_server_names if spec else ()
        self.controller_names = spec.controller_names if spec and spec.controllers else ()


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

    @_is_awaited
    async def cluster(
        self, topics: Mapping[str, object] | None = None, **fields: object
    ) -> RecordedCluster:
        """Start servers, by the fields of ``ClusterPlan``; *topics*: queues or fields by name."""
        if "cluster" in self._fields:
            raise NotRecordable("a scenario has one cluster")
        plan = self._line.made(ClusterPlan, (), fields, place=("cluster",)) or ClusterPlan()
        self._fields["cluster"] = plan
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
        fields = {**(given or {}), **fields}
        place = ("topics", name)
        topic = whole or self._line.made(TopicPlan, (), fields, place=place) or TopicPlan()
        self._fields["topics"][name] = topic
        self._note_line("topics", name)

    @_is_awaited
    async def consumers(
        self,
        group: str,
        *,
        topic: str = "",
        tags: str = ALL_TAGS,
        sql: str = "",
        strategy: str | Strategy = "averagely",
        **fields: object,
    ) -> RecordedGroup:
        """Start members of a group now, by the fields of ``ConsumersPlan``.

        *sql* is an SQL92 expression instead of *tags*, for brokers with ``property_filter``.
        """
        if topic:
            fields["topics"] = {topic: expression_text(sql, SQL92) if sql else tags}
        if (now_ms := self._line.now_ms) is None:
            raise NotRecordable("a group starts at a time: after run.until use join")
        fields = {"starts_ms": now_ms, **fields, "strategy": _name_of(strategy)}
        place = ("consumers", len(self._parts["consumers"]))
        plan = self._line.made(ConsumersPlan, (group,), fields, place=place)
        if plan is None:
            return RecordedGroup(self._line, group, 0)
        others = sum(each.members for each in self._parts["consumers"] if each.group == group)
        self._note_line("consumers", len(self._parts["consumers"]))
        self._parts["consumers"].append(plan)
        return RecordedGroup(self._line, group, plan.members, 1 + others)

    def load(self, topic: str, rate: float | str, **fields: object) -> _RecordedLoad:
        """Send messages from now on, by the fields of ``LoadPlan``; a ``with`` block ends them."""
        if (now_ms := self._line.now_ms) is None:
            raise NotRecordable("a load begins at a time, so before run.until")
        loads = self._parts["load"]
        fields = {"rate": rate, "from_ms": now_ms, **fields}
        plan = self._line.made(LoadPlan, (topic,), fields, place=("load", len(loads)))
        if plan is None:
            return _RecordedLoad(self._line, [LoadPlan(topic="", rate=1)])
        self._note_line("load", len(loads))
        loads.append(plan)
        return _RecordedLoad(self._line, loads)

    def transactions(self, topic: str, rate: float | str, **fields: object) -> _RecordedLoad:
        """A load of transactions: its fields are ``rollbacks``, ``unknowns``, ``crashes`` …"""
        return self.load(topic, rate, mode="transaction", **fields)

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
        programs = self._parts["programs"]
        place = ("programs", len(programs))
        if (made := self._line.made(ProgramPlan, (name,), fields, place=place)) is not None:
            self._note_line(*place)
            programs.append(made)

    # Times -----------------------------------------------------------------------------------

    @_is_awaited
    async def sleep(self, seconds: float | str) -> None:
        """Move the recorded clock by *seconds*, or by a text such as "200ms"."""
        self._line.sleep(_ms(seconds))

    @_is_awaited
    async def until(self, when: When) -> None:
        """Wait for a fact: ``fact("QueuesClaimed", node="billing-3")``."""
        self._line.until(when)

    @_is_awaited
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

    def fault(
        self, fault: Fault, for_ms: float | str | None = None, name: str = ""
    ) -> RecordedFault:
        """Begin a fault that is given as a value: ``with run.fault(Kill(node="broker-b")):``."""
        return self._begin(fault, name, self._line.duration_ms("for_ms", for_ms))

    def expect(self, *expectations: Expectation) -> None:
        """Expect values of metrics at the end of the run, besides the checkers' rules."""
        for each in expectations:
            if not isinstance(each, Expectation):
                text = "compare a metric with ==, <= or >=: idle_members('billing') == 0"
                self._line.refuse(f"{each!r} is no expectation; {text}")
        line = line_in(self._file)
        good = [each for each in expectations if isinstance(each, Expectation)]
        both = [*self._expected_at, *((each, line) for each in good)]
        scopes = list(dict.fromkeys(["", *(each.scope for each, _ in both)]))
        self._expected_at = sorted(both, key=lambda each: scopes.index(each[0].scope))
        self._fields["expect"] = tuple(each for each, _ in self._expected_at)

    def quirks(self, *names: str) -> None:
        """Switch on bugs in clients and brokers by name."""
        self._fields["quirks"] = names
        self._note_line("quirks")

    def limits(self, **fields: object) -> None:
        """Set the limits of the run, by the fields of ``Limits``."""
        self._fields["limits"] = self._line.made(Limits, (), fields, place=("limits",)) or Limits()
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


def _ms(seconds: float | str) -> int:
    if isinstance(seconds, str):
        try:
            return int(parse(seconds, UNITS["ms"]))
        except ValueError:
            text = f'a time is a number of seconds, or a text such as "200ms", not {seconds!r}'
            raise NotRecordable(text) from None
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
