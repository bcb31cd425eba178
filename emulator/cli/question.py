"""``rmqemu run QUESTION``: numbers from a function, no cluster; see ``scenarios.questions``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

import msgspec
import typer

from emulator.cli.columns import Column, Sheet, clean
from emulator.cli.errors import FAILED
from emulator.cli.shared import show
from scenarios.questions import Question
from scenarios.result import RunResult

DIGITS = 6
OF_ONE = (Column("metric", narrow=20), Column("value", is_number=True))
OF_MANY = (
    Column("metric", narrow=20),
    Column("smallest", is_number=True),
    Column("mean", is_number=True),
    Column("largest", is_number=True),
)


def answer(
    question: Question, given: Mapping[str, str], seeds: Iterable[int], *, as_json: bool
) -> None:
    """Show what *question* comes to.  Raises ``BadScenario``, and ``Exit`` without an answer."""
    parameters = question.given(given)
    rows = [question.answer(parameters, seed) for seed in seeds]
    if as_json:
        typer.echo(msgspec.json.encode(rows).decode())
    else:
        show(numbers_of(rows))
        for row in rows:
            if row.verdict == "error":
                typer.echo(clean(f"seed {row.seed} has no answer: {row.reason}"))
    if any(row.verdict == "error" for row in rows):
        raise typer.Exit(FAILED)


def numbers_of(rows: Sequence[RunResult]) -> Sheet:
    """Each metric; of several seeds the smallest, the mean and the largest."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.metrics.items():
            values.setdefault(name, []).append(value)
    if len(rows) == 1:
        return Sheet(OF_ONE, [(name, _figure(each[0])) for name, each in values.items()])
    return Sheet(
        OF_MANY,
        [
            (name, *(_figure(number) for number in (min(each), fmean(each), max(each))))
            for name, each in values.items()
        ],
    )


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value.is_integer() else f"{value:.{DIGITS}g}"
