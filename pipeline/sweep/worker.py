"""Runs the rows of a grid on an executor: a Spark task runs its rows one after the other.

A virtual cluster runs in a process of its own, forked by a ``RunPool`` that each Python worker
keeps until it ends, as in ``rmqemu run --seeds``.  A question is answered in the worker itself.
Any failure of a run becomes a row; Spark retries the task only if the worker is killed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import msgspec
import zstandard
from pyspark import TaskContext
from pyspark.core.files import SparkFiles

from rocketmq_emulator.pipeline.sweep.folder import JOURNALS, journal_name
from rocketmq_emulator.pipeline.sweep.rows import (
    ShippedRow,
    SweptRow,
    TaskLog,
    log_folder,
    returned_batch,
    swept,
)
from rocketmq_emulator.pipeline.sweep.work import RowSpec
from rocketmq_emulator.scenarios.catalog.finding import find_question
from rocketmq_emulator.scenarios.catalog.questions import Question
from rocketmq_emulator.scenarios.plan.result import RunOrder
from rocketmq_emulator.scenarios.sweeps.run_pool import RunPool

if TYPE_CHECKING:
    import pyarrow as pa

ORDERS_KEPT = 512  # of cells
BATCH_ROWS = 1_000  # returned at once
LOG_EVERY_S = 0.5  # of run time; shorter rows are logged together
JOURNAL_BYTES_MAX = 32 << 20  # compressed; a larger one is not shipped: a replay makes it again


ENDED_TWICE = "the Spark worker that ran it ended, twice: the run killed it, or memory ran out"


class TaskSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of all rows of a job."""

    folder: str
    token: str
    wave: str
    run_s_max: float
    paths: tuple[str, ...]


def run_task(
    settings: TaskSettings, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: column ``order`` has a ``RowSpec`` as JSON, column ``seed`` its seed.

    Rows that an earlier attempt of this task finished are read from its log.
    """
    context = TaskContext.get()
    assert context is not None, "runs in a Spark task only"
    logs, is_shared = log_folder(settings.folder, settings.token)
    name = f"{settings.wave}-{context.partitionId()}.jsonl"
    log = TaskLog(logs / name, is_again=context.attemptNumber() > 0)
    task = _Task(settings, log, is_shared=is_shared)
    waiting: list[ShippedRow] = []
    try:
        for batch in batches:
            for text, seed in zip(*map(batch.column, ("order", "seed")), strict=True):
                order = msgspec.structs.replace(_order(text.as_py()), seed=seed.as_py())
                waiting.append(task.row(order))
                if len(waiting) == BATCH_ROWS:
                    yield returned_batch(waiting)
                    waiting = []
        yield returned_batch(waiting)
        task.over()
    except BaseException:  # the task was cancelled in the middle of a run
        _close_run_pool()
        raise
    finally:
        log.close()


@lru_cache(maxsize=ORDERS_KEPT)
def _order(text: bytes) -> RowSpec:
    return msgspec.json.decode(text, type=RowSpec)


class _Task:
    """Runs and logs the rows of one task."""

    def __init__(self, settings: TaskSettings, log: TaskLog, *, is_shared: bool) -> None:
        self._settings = settings
        self._log = log
        self._is_shared = is_shared
        self._journals = Path(settings.folder, JOURNALS) if is_shared else log.path.parent
        self._own_journals: list[Path] = []
        self._unlogged: list[SweptRow] = []
        self._unlogged_s = 0.0
        self._paths = (*settings.paths, os.getcwd(), SparkFiles.getRootDirectory())  # noqa: PTH109

    def row(self, order: RowSpec) -> ShippedRow:
        """The row of *order*, from the log or from a new run."""
        known = self._log.finished.get(order.key)
        if known is not None:
            return self._shipped(known)
        if order.key in self._log.given_up:
            return ShippedRow(self._logged(order.lost(ENDED_TWICE)))
        self._log.begin(order.key)
        if order.question:
            return ShippedRow(self._logged(_answered(order, self._settings.run_s_max)))
        name = journal_name(order.plan, order.made_from, order.seed)
        return self._shipped(self._logged(self._run(order, self._journals / name)))

    def over(self) -> None:
        """All rows were returned: delete files in folders that the driver cannot read."""
        if not self._is_shared:
            self._log.delete()
            for journal in self._own_journals:
                journal.unlink(missing_ok=True)

    def _run(self, order: RowSpec, journal: Path) -> SweptRow:
        given = RunOrder(
            plan=order.plan,
            seed=order.seed,
            journal=str(journal),
            paths=self._paths,
            counts_coverage=order.counts_coverage,
        )
        (row,) = _run_pool(self._settings.run_s_max).rows([given], 1)
        return swept(row, order.made_from)

    def _shipped(self, row: SweptRow) -> ShippedRow:
        """*row* with its journal, if the driver cannot read the file."""
        if self._is_shared or not row.journal:
            return ShippedRow(row)
        path = Path(row.journal)
        self._own_journals.append(path)
        row = msgspec.structs.replace(row, journal="")
        try:
            text = zstandard.compress(path.read_bytes())
        except FileNotFoundError:  # from an earlier attempt; temporary files were cleaned since
            return ShippedRow(row)
        return ShippedRow(row, text if len(text) <= JOURNAL_BYTES_MAX else None)

    def _logged(self, row: SweptRow) -> SweptRow:
        self._unlogged.append(row)
        self._unlogged_s += row.took_s
        is_slow = self._unlogged_s >= LOG_EVERY_S or row.world != "function"
        if is_slow or self._log.marks:
            self._log.add(*self._unlogged)
            self._unlogged, self._unlogged_s = [], 0.0
        return row


# Questions ----------------------------------------------------------------------------------

_questions: dict[str, Question] = {}


class _TookTooLong(BaseException):
    """A question took longer than a run may; ``except Exception`` does not catch it."""


def _answered(order: RowSpec, run_s_max: float) -> SweptRow:
    question = _questions.get(order.question)
    if question is None:
        question = _questions[order.question] = _found(order.question)
    parameters, seed = order.plan.parameters, order.seed
    signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, run_s_max)
    try:
        row = question.answer(parameters, seed)
    except _TookTooLong:
        reason = f"it had no answer after {run_s_max:g} s"
        row = question.unanswered(parameters, seed, reason, run_s_max)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return swept(row, order.made_from)


def _found(name: str) -> Question:
    """The question *name*; its file may be one that Spark has copied here."""
    place, colon, function = name.partition(":")
    if place.endswith(".py") and not Path(place).is_file():
        name = f"{Path(SparkFiles.getRootDirectory(), Path(place).name)}{colon}{function}"
    found = find_question(name)
    assert found is not None, "the driver has checked the name"
    return found


def _too_long(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _TookTooLong


# The process that forks runs ----------------------------------------------------------------

_run_pools: dict[
    float, RunPool
] = {}  # at most one, until this worker ends; by its limit in seconds


def _run_pool(run_s_max: float) -> RunPool:
    if run_s_max not in _run_pools:
        _close_run_pool()
        _run_pools[run_s_max] = RunPool(run_s_max=run_s_max).__enter__()
    return _run_pools[run_s_max]


def _close_run_pool() -> None:
    while _run_pools:
        _run_pools.popitem()[1].__exit__(None, None, None)
