"""A sweep's folder read for a study: its rows, what was asked, and what the scenario says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.studies.study import RELEASE, About, Study, studied
from pipeline.sweep.folder import StoredSweep, read_sweep, sweep_rows
from scenarios.finding import find_question, load
from scenarios.plan import Expectation
from scenarios.problems import BadScenario
from scenarios.running.sweep import metric_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def study_of(spark: SparkSession, folder: Path, wanted: Sequence[str] = ()) -> Study:
    """The study of the sweep in *folder*; *wanted* as for ``studied``.

    Raises ``BadFolder``, ``NothingToStudy`` and ``NoSuchMetric``.
    """
    about = about_of(read_sweep(folder))
    return studied(sweep_rows(spark, folder), about, wanted)


def about_of(sweep: StoredSweep) -> About:
    """What was asked, in the words of the scenario where it can still be found."""
    title, teaches, expected = _words_of(sweep)
    asked = sweep.asked
    is_one_release = RELEASE not in sweep.grid and len(asked.releases) == 1
    return About(
        scenario=asked.scenario,
        settings=dict(asked.settings),
        varied=dict(sweep.grid),
        first_seed=sweep.first_seed,
        last_seed=sweep.last_seed,
        release=asked.releases[0] if is_one_release else "",
        code_version=sweep.code_version,
        command=sweep.command,
        title=title or sweep.name,
        teaches=teaches,
        expected=expected,
    )


def _words_of(sweep: StoredSweep) -> tuple[str, str, tuple[str, ...]]:
    """Title, what it teaches, expectations; all empty where the scenario is not here any more."""
    asked = sweep.asked
    try:
        if (question := find_question(asked.scenario)) is not None:
            _, _, rest = (question.__doc__ or "").partition("\n\n")
            return question.title, _one_line(rest), ()
        plan = load(asked.scenario, asked.settings)
    except BadScenario:
        return "", "", ()
    return plan.title, plan.teaches, tuple(_text_of(each) for each in plan.expect)


def _text_of(expectation: Expectation) -> str:
    return f"{metric_name(expectation)} {expectation.operator} {expectation.bound:g}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
