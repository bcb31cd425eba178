"""Reads a TOML file into a plan, or raises all its problems, each with its line.

    plan = read_plan(text, "broker_dies.toml", {"members": 5})

A file has the fields of a plan (``scenarios.plan.plan``) in a shorter form: a step of the timeline
is a table with the keyword of a fault or action, an expectation is a metric with a number, and
durations, sizes and rates have their unit.  docs/scenarios.md has every field and keyword.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from rocketmq_emulator.scenarios.files.parameters import SET, Substitution, Value, parameter_values
from rocketmq_emulator.scenarios.files.positions import positions
from rocketmq_emulator.scenarios.files.quantities import spelling
from rocketmq_emulator.scenarios.files.typed import (
    CannotConvert,
    StructConverter,
    StructReader,
    types_of,
)
from rocketmq_emulator.scenarios.plan.plan import (
    ACTIONS,
    WORDS,
    ConsumersPlan,
    Expectation,
    Operator,
    Plan,
    Step,
    timed,
)
from rocketmq_emulator.scenarios.plan.problems import BadScenario, Path, Problem
from rocketmq_emulator.scenarios.plan.unread import UnreadPart, without_consequences
from rocketmq_emulator.scenarios.plan.validity import Checks, problems_of
from rocketmq_emulator.text.suggestions import nearest_names, suggestion

TOML_CHARS_MAX = 1_000_000
TOML_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")
OPERATORS: Mapping[str, Operator] = {"_max": "<=", "_min": ">="}
ALL_TAGS = "*"
OWN_WORDS = ("parameters", "made_with", "expect")  # keys of the whole file that are read here
STEP_FIELDS = tuple(spelling(field).plain for field in types_of(Step) if field != "does")


def read_plan(
    text: str,
    source: str,
    parameters: Mapping[str, Value | str] | None = None,
    checks: Checks = problems_of,
) -> Plan:
    """The plan of the TOML *text*; *source* is its path, for messages.

    *parameters* override the file's own values; a text is converted to the type of that value.
    Raises ``BadScenario`` with all problems, also those that *checks* finds in the plan.
    """
    if len(text) > TOML_CHARS_MAX:
        raise BadScenario(source, [Problem((), f"it is longer than {TOML_CHARS_MAX} characters")])
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadScenario(source, [_no_toml(error, text)]) from None
    return _Reading(document, text, source).plan(parameters or {}, checks)


def _no_toml(error: tomllib.TOMLDecodeError, text: str) -> Problem:
    found = TOML_PLACE.search(str(error))
    line = int(found[1]) if found else text.count("\n") + 1
    return Problem((), f"this is no TOML: {TOML_PLACE.sub('', str(error))}", line)


class _Reading:
    def __init__(self, document: dict[str, Any], text: str, source: str) -> None:
        self.document, self.source = document, source
        self.lines = positions(text)
        self.places: dict[Path, Path] = {}  # parts of the plan that have another path in the file
        self.fitting = StructConverter()
        self.moved: Mapping[Path, Path] = {}

    def plan(self, parameters: Mapping[str, Value | str], checks: Checks) -> Plan:
        defaults = self._parameters()
        values, problems = parameter_values(defaults, parameters)
        put = Substitution(values)
        rest = {name: part for name, part in self.document.items() if name != "parameters"}
        document = put.into(rest)
        self.moved = put.moved
        shapes: dict[Any, StructReader] = {ConsumersPlan: self._consumers, Step: self._step}
        self.fitting = StructConverter(put.places, shapes)
        unused = [
            Problem(("parameters", name), f"nothing uses ${name}")
            for name in defaults
            if name not in put.used
        ]
        problems += [*unused, *put.problems]
        assert isinstance(document, dict), "a table stays a table"
        plan = self._whole(document, values)
        known = {problem.path for problem in put.problems}
        problems += [each for each in self.fitting.problems if each.path not in known]
        self.places |= self.fitting.moved
        problems += self._checked(plan, checks)
        self._check(problems)
        return plan

    def _checked(self, plan: Plan, checks: Checks) -> Iterator[Problem]:
        """What *checks* find, without the consequences of what could not be read."""
        unread = self.fitting.unread
        found = [(self._place(path), text) for path, text in checks(plan)]
        return itertools.starmap(Problem, without_consequences(found, unread))

    # The file as a whole ------------------------------------------------------------------

    def _whole(self, document: dict[str, Any], parameters: Mapping[str, Value]) -> Plan:
        fitting = self.fitting
        given, is_good = fitting.fields(Plan, document, (), OWN_WORDS)
        given.setdefault("name", PurePath(self.source).stem)
        try:
            given["expect"] = self._expectations(document.get("expect", {}), ("expect",))
        except CannotConvert:
            is_good = False
        try:
            made_with = self._made_with(document)
        except CannotConvert:
            is_good, made_with = False, {}
        given["parameters"] = {**made_with, **parameters}
        given["timeline"] = timed(given.get("timeline", ()))
        return fitting.made(Plan, given, is_good, ())

    def _parameters(self) -> dict[str, Value]:
        table = self.document.get("parameters", {})
        try:
            return self._values(table, ("parameters",))
        except CannotConvert:
            self._check(self.fitting.problems)
            raise

    def _made_with(self, document: Mapping[str, Any]) -> dict[str, Value]:
        return self._values(document.get("made_with", {}), ("made_with",))

    def _values(self, table: object, path: Path) -> dict[str, Value]:
        if not isinstance(table, dict):
            raise self.fitting.refuse(path, "is a table of names with their values")
        for name, value in table.items():
            if not isinstance(value, bool | int | float | str):
                self.fitting.refuse((*path, name), "is a number, a text, true or false")
        if self.fitting.problems:
            raise CannotConvert
        return table

    # Parts that a file writes in another form than the plan ---------------------------------

    def _consumers(self, fitting: StructConverter, value: object, path: Path) -> ConsumersPlan:
        """Consumers with ``topic = "orders"`` and perhaps ``tags``, or with ``topics``."""
        own = ("topic", "tags")
        given, is_good = fitting.fields(ConsumersPlan, value, path, own)
        if isinstance(value, Mapping) and {"topic", "tags"} & value.keys():
            tags = fitting.value(value.get("tags", ALL_TAGS), str, (*path, "tags"))
            topic = value.get("topic")
            if topic is None or "topics" in value:
                text = "either one topic with its tags, or topics with a tag expression each"
                raise fitting.refuse((*path, "topics" if "topics" in value else "tags"), text)
            given["topics"] = {fitting.value(topic, str, (*path, "topic")): tags}
            self.places[(*path, "topics")] = (*path, "topic")
        return fitting.made(ConsumersPlan, given, is_good, path)

    def _step(self, fitting: StructConverter, value: object, path: Path) -> Step:
        if not isinstance(value, Mapping):
            raise fitting.refuse(path, 'is a table: at = "30s", kill = "broker-b"')
        words = [name for name in value if name in WORDS]
        known = {*WORDS, *STEP_FIELDS}
        strange = [name for name in value if name not in known and name not in types_of(Step)] + [
            name for name in value if name == "does"
        ]
        for name in strange:
            text = f"there is no fault or action {name!r}{suggestion(name, known)}"
            fitting.refuse((*path, name), text)
        if len(words) != 1 and not strange:
            text = (
                f"a step does one thing, not {' and '.join(words)}; make it several steps"
                if words
                else "this step does nothing: give it the keyword of a fault or action"
            )
            fitting.refuse(path, text)
        own = (*WORDS, *strange)
        given, is_good = fitting.fields(Step, value, path, own)
        meant = frozenset(each for name in strange for each in nearest_names(name, known, 1))
        if len(words) != 1 or strange:
            fitting.unread.append(UnreadPart(path, None, meant))
            raise CannotConvert
        (word,) = words
        try:
            given["does"] = fitting.struct(WORDS[word], value[word], (*path, word))
        except CannotConvert:
            fitting.unread.append(UnreadPart(path, None, frozenset((word,))))
            raise
        if word in ACTIONS and "for_ms" in given:
            raise fitting.refuse((*path, "for"), f"{word} is done at once: it has no end")
        return fitting.made(Step, given, is_good, path)

    def _expectations(self, table: object, path: Path) -> tuple[Expectation, ...]:
        if not isinstance(table, dict):
            raise self.fitting.refuse(path, "is a table of metrics: lost = 0")
        found: list[Expectation] = []
        for scope, name, value in _scoped(table):
            place = (*path, scope, name) if scope else (*path, name)
            metric, operator = metric_of(name)
            self.places["expect", len(found)] = place
            try:
                bound = self.fitting.value(value, float, place)
            except CannotConvert:
                bound = 0.0  # its metric is checked all the same
            assert isinstance(bound, float)
            found.append(Expectation(metric=metric, operator=operator, bound=bound, scope=scope))
        return tuple(found)

    # Places -----------------------------------------------------------------------------------

    def _place(self, path: Path) -> Path:
        """The path in the file of a part of the plan."""
        place: Path = ()
        for part in path:
            place = (*place, part)
            place = self.places.get(place, place)
        return place

    def _check(self, problems: list[Problem]) -> None:
        if problems:
            shown = dict.fromkeys(self._in_the_file(problem) for problem in problems)
            raise BadScenario(self.source, sorted(shown, key=lambda problem: problem.line))

    def _in_the_file(self, problem: Problem) -> Problem:
        """*problem* with the file's names, and its line or that of the nearest path above it."""
        if problem.path and str(problem.path[0]).startswith(SET):
            return problem
        path = self.moved.get(problem.path, problem.path)
        line, names = 1, list(path)
        for length in range(1, len(path) + 1):
            above, last = tuple(names[: length - 1]), path[length - 1]
            if (*above, last) not in self.lines and isinstance(last, str):
                names[length - 1] = spelling(last).plain
            line = self.lines.get(tuple(names[:length]), line)
        return Problem(tuple(names), problem.text, line)


def _scoped(table: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Each metric with its bound and its scope, a group or topic; empty for the whole run."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from ((name, metric, bound) for metric, bound in value.items())
        else:
            yield "", name, value


def metric_of(name: str) -> tuple[str, Operator]:
    """The metric and operator: of ``duplicates_max`` ``duplicates`` and ``<=``; else ``==``."""
    for ending, operator in OPERATORS.items():
        if name.endswith(ending) and len(name) > len(ending):
            return name.removesuffix(ending), operator
    return name, "=="
