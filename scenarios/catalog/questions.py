"""Questions that need no cluster: pure functions of a seed and parameters that return metrics.

    @question
    def sharing(seed: int, strategy: str = "averagely", members: int = 3) -> dict[str, float]:
        ...

The first argument is the seed; each other argument is a parameter and has a default, which gives
its type.  A question has a name, as a scenario has, and its answer is a row, as a run's, of the
world ``function``: so sweeps and studies handle both alike.  ``scenarios.catalog.finding`` finds
questions.
"""

from __future__ import annotations

import inspect
import math
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from rocketmq_emulator.scenarios.files.parameters import Value, parameter_values
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.plan.result import RunResult, code_version
from rocketmq_emulator.text.docstrings import NoSource, docstring_of

QuestionFunction: TypeAlias = Callable[..., Mapping[str, float]]


class Question:
    """A question.  Raises ``TypeError`` if *function* has no seed, or a parameter no default.

    Its docstring has the title and the explanation, also under ``python -OO``, where it is read
    from the source; a function without source is refused there.
    """

    def __init__(self, function: QuestionFunction) -> None:
        self.function = function
        self.name = function.__name__
        self.file = inspect.getsourcefile(function) or ""
        self.parameters = _defaults(function)
        try:
            self.__doc__ = docstring_of(function)
        except NoSource as error:
            raise TypeError(str(error)) from None
        title, _, _ = self.__doc__.partition("\n")
        self.title = title.rstrip(".")

    def __repr__(self) -> str:
        return f"<question {self.name}>"

    def given(self, parameters: Mapping[str, Value | str]) -> dict[str, Value]:
        """The values of all parameters; a given text is converted to the type of the default.

        Raises ``BadScenario``.
        """
        values, problems = parameter_values(self.parameters, parameters)
        if problems:
            raise BadScenario(self.name, problems)
        return values

    def answer(self, parameters: Mapping[str, Value], seed: int) -> RunResult:
        """The row of one seed; after any error of the function its verdict is ``error``."""
        began_s = time.perf_counter()
        try:
            metrics = _numbers(self.function(seed, **parameters))
        except Exception as error:  # noqa: BLE001  # a user's function raises anything
            took_s = time.perf_counter() - began_s
            return self.unanswered(parameters, seed, _text_of(error), took_s)
        took_s = time.perf_counter() - began_s
        return self._row(parameters, seed, metrics=metrics, took_s=took_s)

    def unanswered(
        self, parameters: Mapping[str, Value], seed: int, reason: str, took_s: float = 0.0
    ) -> RunResult:
        """The row of a seed that has no answer."""
        return self._row(parameters, seed, reason=reason, took_s=took_s)

    def _row(
        self,
        parameters: Mapping[str, Value],
        seed: int,
        *,
        took_s: float,
        metrics: Mapping[str, float] | None = None,
        reason: str = "",
    ) -> RunResult:
        return RunResult(
            scenario=self.name,
            code_version=code_version(),
            world="function",
            release="",
            parameters=dict(parameters),
            seed=seed,
            verdict="error" if metrics is None else "passed",
            reason=reason,
            metrics=dict(metrics or {}),
            violations=(),
            unmet=(),
            run_s=0.0,
            took_s=took_s,
            fact_count=0,
        )


def question(function: QuestionFunction) -> Question:
    """Make a function of a seed and parameters with defaults a ``Question``."""
    return Question(function)


def _defaults(function: QuestionFunction) -> dict[str, Value]:
    names = inspect.signature(function).parameters
    if next(iter(names), "") != "seed":
        raise TypeError(f"{function.__name__}: the first argument of a question is the seed")
    parameters = [each for each in names.values() if each.name != "seed"]
    for each in parameters:
        if not isinstance(each.default, bool | int | float | str):
            text = f"{function.__name__}: the parameter {each.name} needs a default"
            raise TypeError(f"{text}: a number, a text, True or False")
    return {each.name: each.default for each in parameters}


def _numbers(answered: Mapping[str, float]) -> dict[str, float]:
    """The answer as metrics.  Raises ``ValueError`` for a value that is not a finite number."""
    found = {str(name): float(value) for name, value in answered.items()}
    for name, value in found.items():
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}, which is no number that can be compared")
    return found


def _text_of(error: Exception) -> str:
    text = "".join(traceback.format_exception_only(error)).strip()
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text} (at {last.name}, {Path(last.filename).name}:{last.lineno})"
