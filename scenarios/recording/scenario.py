"""``@scenario``: a Python function that can be recorded, and its parameters.

    @scenario(issue="apache/rocketmq#3465")
    async def a_broker_turns_read_only(run: Run, members: int = 8) -> None:
        ...

The arguments after the run are parameters: each has a default, which gives its type.  While the
function is recorded it may not read a clock, random numbers or anything outside: their values
would have nothing to do with the run.  ``sys.setprofile`` reports each call that the scenario's
own file makes; calls into a module of the table ``REFUSED`` are refused.
"""

from __future__ import annotations

import inspect
import random
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias, overload

from rocketmq_emulator.scenarios.files.parameters import Value, parameter_values
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.problems import BadScenario, Problem, line_of
from rocketmq_emulator.scenarios.plan.unread import without_consequences
from rocketmq_emulator.scenarios.plan.validity import Checks, problems_of
from rocketmq_emulator.scenarios.recording.run import Run
from rocketmq_emulator.scenarios.recording.timeline import NotRecordable
from rocketmq_emulator.text.docstrings import NoSource, docstring_of

Recorded: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


class Scenario:
    """A scenario written in Python.  ``plan(members=5)`` records it; nothing is run."""

    def __init__(self, function: Recorded, about: Mapping[str, Any]) -> None:
        code = getattr(function, "__code__", None)
        if code is None or not inspect.iscoroutinefunction(function):
            raise TypeError(f"a scenario is an async function, not {function!r}")
        self.function, self.about = function, about
        self.file, self.line = code.co_filename, code.co_firstlineno
        self.name = str(about.get("name") or function.__name__)
        self.parameters = self._defaults()
        self.__doc__ = self._docstring()

    def __repr__(self) -> str:
        return f"<scenario {self.name}>"

    def plan(self, parameters: Mapping[str, Value | str] | None = None, **more: Value) -> Plan:
        """The plan that the function records.  Raises ``BadScenario``."""
        return self.checked({**(parameters or {}), **more})

    def checked(self, parameters: Mapping[str, Value | str], checks: Checks = problems_of) -> Plan:
        """The plan, without a problem that *checks* finds.

        Raises ``BadScenario`` with all problems, those of arguments, too: each has the line of its
        call.  A call that cannot be recorded at all ends the recording; then the plan is not
        checked.
        """
        values, problems = parameter_values(self.parameters, parameters)
        if problems:
            raise BadScenario(self.file, problems)
        run = Run(self.file)
        line = run._line  # noqa: SLF001
        plan, ended_by = None, None
        try:
            self._record(run, values)
            plan = run._plan(**self._fields(values))  # noqa: SLF001
        except BadScenario as error:
            ended_by = error
        except ValueError as error:
            ended_by = self._bad(str(error))
        is_whole = line.check_awaited()
        if ended_by is not None and (is_whole or "coroutine" not in str(ended_by)):
            line.problems += ended_by.problems
        if plan is not None and is_whole:
            lines = run._lines()  # noqa: SLF001
            found = [*checks(plan)]
            if line.unread:
                found = without_consequences(found, line.unread)
            line.problems += [
                Problem(path, text, line_of(path, lines, self.line)) for path, text in found
            ]
        if line.problems or plan is None:
            shown = sorted(line.problems, key=lambda problem: problem.line)
            raise BadScenario(self.file, shown) from ended_by and ended_by.__cause__
        return plan

    def _fields(self, values: Mapping[str, Value]) -> dict[str, Any]:
        title, _, teaches = (self.__doc__ or "").partition("\n")
        made_with = self.about.get("made_with", {})
        return {
            "name": self.name,
            "title": self.about.get("title") or title.rstrip("."),
            "issue": self.about.get("issue", ""),
            "teaches": self.about.get("teaches") or " ".join(teaches.split()),
            "parameters": {**made_with, **values},
        }

    def _record(self, run: Run, values: Mapping[str, Value]) -> None:
        coroutine = self.function(run, **values)
        try:
            with only_recorded(self.file):
                coroutine.send(None)
        except StopIteration:
            return
        except BadScenario:
            raise
        except Exception as error:
            raise self._bad(_sentence(error), error) from error
        coroutine.close()
        raise self._bad("it awaits something that is not the run: use run.sleep and run.until")

    def _bad(self, text: str, error: BaseException | None = None) -> BadScenario:
        frames = traceback.extract_tb(error.__traceback__) if error else []
        lines = [frame.lineno for frame in frames if frame.filename == self.file]
        line = next((line for line in reversed(lines) if line), self.line)
        return BadScenario(self.file, [Problem((), text, line)])

    def _docstring(self) -> str:
        try:
            return docstring_of(self.function)
        except NoSource as error:
            if self.about.get("title") and self.about.get("teaches"):
                return ""
            raise TypeError(f"{error}: give the scenario a title and teaches") from None

    def _defaults(self) -> dict[str, Value]:
        _, *parameters = inspect.signature(self.function).parameters.values()
        for each in parameters:
            if not isinstance(each.default, bool | int | float | str):
                text = f"{self.name}: the parameter {each.name} needs a default"
                raise TypeError(f"{text}: a number, a text, True or False")
        return {each.name: each.default for each in parameters}


@overload
def scenario(function: Recorded, /) -> Scenario: ...
@overload
def scenario(
    *,
    issue: str = "",
    title: str = "",
    teaches: str = "",
    name: str = "",
    made_with: Mapping[str, Value] | None = None,
) -> Callable[[Recorded], Scenario]: ...
def scenario(
    function: Recorded | None = None,
    /,
    *,
    issue: str = "",
    title: str = "",
    teaches: str = "",
    name: str = "",
    made_with: Mapping[str, Value] | None = None,
) -> Scenario | Callable[[Recorded], Scenario]:
    """Make an async function a scenario; its docstring is the default of *title* and *teaches*.

    Under ``python -OO``, which removes docstrings, it is read from the source, so that a journal
    has the same bytes.  There a function without source needs *title* and *teaches*
    (``TypeError``).  *made_with* are the parameters of a plan that was printed as Python.
    """
    about = {
        "issue": issue,
        "title": title,
        "teaches": teaches,
        "name": name,
        "made_with": made_with or {},
    }
    if function is not None:
        return Scenario(function, about)
    return lambda function: Scenario(function, about)


def _sentence(error: Exception) -> str:
    own = isinstance(error, ValueError | TypeError) and str(error)
    return str(error) if own else f"{type(error).__name__}: {error}"


# Calls that are refused while a scenario is recorded ----------------------------------


REFUSED: Mapping[str, str] = {  # by module, with the replacement
    "trio": "use run.sleep and run.until",
    "asyncio": "use run.sleep and run.until",
    "time": "the time of the run is not known yet; run.sleep moves its clock",
    "datetime": "the time of the run is not known yet; run.sleep moves its clock",
    "random": "random choices follow from the seed of a run: jitter_ms, fails, weather",
    "socket": "nothing runs yet",
    "subprocess": "nothing runs yet",
    "threading": "nothing runs yet",
    "requests": "nothing runs yet",
    **dict.fromkeys(
        (
            "rocketmq_emulator.sync",
            "rocketmq_emulator.aio",
            "rocketmq_emulator.portal",
            "rocketmq_emulator.testing",
            "rocketmq_emulator.processes",
            "rocketmq_emulator.admin",
            "rocketmq_emulator.cluster.worlds",
            "rocketmq_emulator.client.instance",
            "rocketmq_emulator.client.producer",
            "rocketmq_emulator.client.consumer.push",
            "rocketmq_emulator.client.consumer.pull",
        ),
        "nothing runs yet; a client program of your own is run.program",
    ),
}
READS_THE_CLOCK = ("now", "today", "utcnow")


@contextmanager
def only_recorded(file: str) -> Iterator[None]:
    """Inside the block, a call by code of *file* into ``REFUSED`` raises ``NotRecordable``."""

    def watch(frame: FrameType, event: str, called: object) -> None:
        if event == "c_call" and frame.f_code.co_filename == file:
            _check(_module_of(called), getattr(called, "__qualname__", ""), called)
        elif event == "call" and _is_called_by(frame, file):
            owner = frame.f_locals.get("self")
            _check(frame.f_globals.get("__name__", ""), frame.f_code.co_name, owner)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


def _is_called_by(frame: FrameType, file: str) -> bool:
    caller = frame.f_back
    return caller is not None and caller.f_code.co_filename == file != frame.f_code.co_filename


def _check(module: str, function: str, owner: object) -> None:
    top = module.partition(".")[0]
    room = next((each for each in REFUSED if f"{module}.".startswith(f"{each}.")), None)
    if room is None:
        return
    owner = getattr(owner, "__self__", owner)
    if top == "random" and isinstance(owner, random.Random) and owner is not random._inst:  # noqa: SLF001
        return  # a generator with its own seed gives the same numbers each time
    if top == "datetime" and function.rpartition(".")[2] not in READS_THE_CLOCK:
        return
    sys.setprofile(None)
    raise NotRecordable(f"{function} of {top} cannot be recorded: {REFUSED[room]}")


def _module_of(called: object) -> str:
    owner = getattr(called, "__self__", None)
    module = getattr(called, "__module__", None)
    if module is None and owner is not None:
        module = owner.__module__ if isinstance(owner, type) else type(owner).__module__
    return module or ""
