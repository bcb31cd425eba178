"""The grid of a sweep: a scenario or a question, parameters with several values, releases, seeds.

The product of the values gives the cells; each cell is run with every seed.  A cell is identified
by a digest of everything that determines its runs (the plan, the code): a stored row is valid
as long as that digest is the same.  This module does not use Spark.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.scenarios.catalog.finding import (
    WEATHER,
    find_question,
    has_plan_per_seed,
    load,
)
from rocketmq_emulator.scenarios.catalog.questions import Question
from rocketmq_emulator.scenarios.files.parameters import Value, parameter_values
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.problems import BadScenario
from rocketmq_emulator.scenarios.plan.validity import refusals_of
from rocketmq_emulator.scenarios.sweeps.row_files import DIGEST_DIGITS, made_from
from rocketmq_emulator.scenarios.sweeps.sweep import cache_plan_of
from rocketmq_emulator.settings.releases import known_release
from rocketmq_emulator.text.suggestions import suggestion

Kind: TypeAlias = Literal["scenario", "weather", "question"]

CELLS_MAX = 10_000
ROWS_MAX = 10_000_000
VALUES_MAX = 10_000  # of one parameter
RELEASE = "release"
A_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(\d+))?")
COMMAS = re.compile(r",(?![^()]*\))")  # not the commas within parentheses


class BadGrid(Misuse, ValueError):
    """The options give no grid; nothing was run.  The text says what to write instead."""


class SweepSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a sweep; values are texts as written, the scenario's parameters give types.

    An empty ``releases`` means the scenario's own release.  The last seed is included.
    """

    scenario: str
    settings: dict[str, str] = {}
    vary: dict[str, tuple[str, ...]] = {}
    releases: tuple[str, ...] = ()
    first_seed: int = 1
    last_seed: int = 1

    @property
    def seeds(self) -> range:
        """From the first seed to the last, inclusive."""
        return range(self.first_seed, self.last_seed + 1)


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One combination of values.  ``varied`` has those that vary, the release as ``release``.

    ``plan`` has the expectations and, for a scenario, everything that is run.  The plan of a
    question has only its name and parameters; that of weather represents all seeds.
    """

    number: int
    varied: dict[str, Value]
    given: dict[str, Value | str]
    release: str
    made_from: str
    plan: Plan


class SweepGrid(msgspec.Struct, frozen=True):
    """The cells of the sweep that *asked* describes."""

    asked: SweepSpec
    kind: Kind
    name: str
    cells: tuple[Cell, ...]

    @property
    def row_count(self) -> int:
        """The number of cells times the number of seeds."""
        return len(self.cells) * len(self.asked.seeds)

    @property
    def varied(self) -> tuple[str, ...]:
        """The columns: parameters that vary, in the order in which they were given."""
        return tuple(self.cells[0].varied)


def variation(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse ``members=3..10`` or ``strategy=averagely,circle``: name, and values as texts.

    ``8..64..8`` goes in steps of 8.  Raises ``BadGrid``.
    """
    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values.strip():
        raise BadGrid(f"--vary is NAME=VALUE,VALUE,… or NAME=A..B, as in members=3..10: {text!r}")
    return name.strip(), values_of(values)


def values_of(text: str) -> tuple[str, ...]:
    """Parse ``1,2,5..8``: each value as a text; ranges include their end.  Raises ``BadGrid``."""
    found: list[str] = []
    for part in (part.strip() for part in COMMAS.split(text)):
        if (numbers := A_RANGE.fullmatch(part)) is None:
            found.append(part)
            continue
        first, last, step = int(numbers[1]), int(numbers[2]), int(numbers[3] or 1)
        if first > last or step < 1:
            raise BadGrid(f"{part} is empty: a range is A..B with A at most B, or A..B..STEP")
        if (last - first) // step >= VALUES_MAX:
            raise BadGrid(f"{part} has more than {VALUES_MAX:,} values")
        found += map(str, range(first, last + 1, step))
    if twice := sorted({value for value in found if found.count(value) > 1}):
        raise BadGrid(f"{', '.join(twice)} is given twice")
    if not all(found):
        raise BadGrid(f"{text!r} has an empty value")
    return tuple(found)


def grid_of(asked: SweepSpec) -> SweepGrid:
    """All cells with their plans.  Raises ``BadGrid`` and ``BadScenario``; nothing is run."""
    question = find_question(asked.scenario)
    if question is not None:
        known: Mapping[str, Value] = question.given(asked.settings)
    else:
        known = load(asked.scenario, asked.settings).parameters
    combinations = _combinations(asked, known)
    count = len(combinations) * len(asked.seeds)
    if len(combinations) > CELLS_MAX or count > ROWS_MAX:
        text = f"{len(combinations):,} combinations and {count:,} rows are too many"
        raise BadGrid(f"{text}: the limits are {CELLS_MAX:,} and {ROWS_MAX:,}")
    made = [
        _cell(asked, number, parameters, release, question)
        for number, (parameters, release) in enumerate(combinations)
    ]
    kind: Kind = "scenario"
    if question is not None:
        kind = "question"
    elif is_of_many_plans(asked):
        kind = "weather"
    return SweepGrid(asked, kind, made[0].plan.name, tuple(made))


def is_of_many_plans(asked: SweepSpec) -> bool:
    """Whether each seed has a plan of its own."""
    return has_plan_per_seed(asked.scenario, {**asked.settings, **asked.vary})


def _combinations(
    asked: SweepSpec, known: Mapping[str, Value]
) -> list[tuple[dict[str, Value], str]]:
    """The varied parameters, typed, and the release; empty means the scenario's own."""
    vary = dict(asked.vary)
    releases = releases_of(asked, known)
    if releases != asked.releases:
        del vary[RELEASE]
    for release in releases:
        _check_release(release)
    if twice := sorted({*vary} & {*asked.settings}):
        raise BadGrid(f"{', '.join(twice)} is both set and varied")
    columns = [_typed(name, values, known) for name, values in vary.items()]
    return [
        (dict(zip(vary, values, strict=True)), release)
        for values in itertools.product(*columns)
        for release in releases or ("",)
    ]


def releases_of(asked: SweepSpec, known: Mapping[str, Value]) -> tuple[str, ...]:
    """The releases of --release, or of --vary if ``release`` is no parameter of the scenario."""
    if RELEASE in asked.vary and RELEASE not in known:
        return (*asked.releases, *asked.vary[RELEASE])
    return asked.releases


def _typed(name: str, texts: Sequence[str], known: Mapping[str, Value]) -> list[Value]:
    if name not in known:
        raise BadGrid(f"--vary {name}: there is no such parameter{suggestion(name, known)}")
    found: list[Value] = []
    for text in texts:
        values, problems = parameter_values(known, {name: text})
        if problems:
            raise BadGrid(f"--vary {name}: {problems[0].text}")
        if values[name] in found:
            raise BadGrid(f"--vary {name}: {text} is given twice")
        found.append(values[name])
    return found


def _check_release(release: str) -> None:
    try:
        known_release(release)
    except ValueError as error:
        raise BadGrid(f"--release: {error}") from None


def _cell(
    asked: SweepSpec,
    number: int,
    parameters: dict[str, Value],
    release: str,
    question: Question | None,
) -> Cell:
    given: dict[str, Value | str] = {**asked.settings, **parameters}
    varied = dict(parameters)
    if release and (len(asked.releases) != 1 or RELEASE in asked.vary):
        varied[RELEASE] = release
    if question is not None:
        if release:
            raise BadGrid(f"{question.name} is a question: it has no release")
        plan = Plan(name=question.name, title=question.title, parameters=question.given(given))
        digest = _digest_of_question(question, plan)
    else:
        plan = _plan(asked, given, release)
        digest = made_from(plan)
        if is_of_many_plans(asked):
            plan = msgspec.structs.replace(plan, name=WEATHER.name)
            digest = made_from(cache_plan_of(plan))
    return Cell(
        number=number, varied=varied, given=given, release=release, made_from=digest, plan=plan
    )


def _plan(asked: SweepSpec, given: Mapping[str, Value | str], release: str) -> Plan:
    try:
        plan = load(asked.scenario, given, release)
    except BadScenario as error:
        shown = ", ".join(f"{name}={value}" for name, value in given.items())
        raise BadGrid(f"{error} (with {shown})" if given else str(error)) from None
    if refusals := [why for _, why in refusals_of(plan, "virtual", has_links=True)]:
        raise BadGrid("\n".join(f"{asked.scenario}: {why}" for why in refusals))
    return plan


def _digest_of_question(question: Question, plan: Plan) -> str:
    """A digest over its file and the files that its parameters name (``FILE.py:FUNCTION``)."""
    digest = hashlib.sha256(made_from(plan).encode())
    places = [str(value).rpartition(":")[0] for value in plan.parameters.values()]
    for file in (question.file, *(place for place in places if place.endswith(".py"))):
        digest.update(Path(file).read_bytes() if Path(file).is_file() else b"")
    return digest.hexdigest()[:DIGEST_DIGITS]
