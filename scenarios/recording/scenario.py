"""``@scenario``: a Python function that can be recorded, with its parameters.

    @scenario(issue="apache/rocketmq#3465")
    async def a_broker_turns_read_only(run: Run, members: int = 8) -> None:
        ...

Its arguments after the run are its parameters: each has a default, which gives its type.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeAlias, overload

from emulator.docstrings import NoSource, docstring_of
from scenarios.files.parameters import Value, chosen
from scenarios.plan import Plan
from scenarios.problems import BadScenario, Problem
from scenarios.recording.purity import only_recorded
from scenarios.recording.run import Run
from scenarios.validity import problems_of

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
        """What the function does, as a plan.  Raises ``BadScenario``."""
        values, problems = chosen(self.parameters, {**(parameters or {}), **more})
        if problems:
            raise BadScenario(self.file, problems)
        run = Run()
        self._record(run, values)
        try:
            plan = run._plan(**self._fields(values))  # noqa: SLF001
        except ValueError as error:
            raise self._bad(str(error)) from None
        if found := problems_of(plan):
            raise BadScenario(self.file, [Problem(path, text, self.line) for path, text in found])
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
        raise self._bad("it waits for something else than the run: use run.sleep and run.until")

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
    """An async function is a scenario; its docstring gives title and lesson unless these do.

    Under ``python -OO``, which removes docstrings, it is read from the source: a journal is the
    same bytes.  A function without source needs *title* and *teaches* there (``TypeError``).
    *made_with* are the parameters of a plan that was printed as Python.
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
