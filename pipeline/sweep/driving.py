"""The driver of a sweep: starts waves of tasks, receives rows and stores them.

``sweep`` is the one call for a program or a notebook.  Each wave is a Spark job: rows of the
grid as a DataFrame, divided into tasks, through ``mapInArrow``.  If driver and executors share
the folder, a row arrives when its run is over, else at the end of its wave.  If a Spark job
fails, its rows are tried again in smaller jobs; a row that kills its worker even alone in a job
gets the verdict ``error``.

    with SweepFolder(path, about) as folder:
        for row in SparkSweep(spark, grid, folder).rows(): ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import types as T  # noqa: N812  # as PySpark's own pages name it

from rocketmq_emulator.pipeline.schemas import spark_schema
from rocketmq_emulator.pipeline.sweep.division import WAVES_AT_ONCE, RunTimes, tasks_of_wave
from rocketmq_emulator.pipeline.sweep.folder import SweepFolder, stored_sweep, sweep_rows
from rocketmq_emulator.pipeline.sweep.grid import SweepGrid, SweepSpec, grid_of
from rocketmq_emulator.pipeline.sweep.preflight import check_executors
from rocketmq_emulator.pipeline.sweep.rows import SHIPPED, RowKey, ShippedRow, SweptRow, read_rows
from rocketmq_emulator.pipeline.sweep.work import PendingRows, RowSpec
from rocketmq_emulator.pipeline.sweep.worker import TaskSettings, run_task
from rocketmq_emulator.protocol.error_families import NobodyAnswered
from rocketmq_emulator.scenarios.files.parameters import Value
from rocketmq_emulator.scenarios.sweeps.run_pool import RUN_S_MAX
from rocketmq_emulator.scenarios.sweeps.sweep import SweepTally

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


# From a program -----------------------------------------------------------------------


def sweep(
    spark: SparkSession,
    scenario: str,
    to: str | Path,
    *,
    seeds: range = range(1, 2),
    vary: Mapping[str, Iterable[Value]] | None = None,
    settings: Mapping[str, Value] | None = None,
    releases: Sequence[str] = (),
    run_s_max: float = RUN_S_MAX,
    look: Callable[[SparkSweep], object] = lambda _: None,
) -> DataFrame:
    """Run the missing rows of this sweep into the folder *to*; return all rows (``sweep_rows``).

    *vary* has the values of each parameter; *seeds* is a range without gaps.  *look* is called
    with each row, for example to show progress.  Raises ``BadScenario``, ``BadGrid``,
    ``BadFolder`` and ``SparkUnavailable`` before anything is run, ``SparkStopped`` later.
    """
    asked = SweepSpec(
        scenario=scenario,
        settings={name: _text(value) for name, value in (settings or {}).items()},
        vary={name: tuple(map(_text, values)) for name, values in (vary or {}).items()},
        releases=tuple(releases),
        first_seed=seeds[0],
        last_seed=seeds[-1],
    )
    grid = grid_of(asked)
    check_executors(spark)
    with SweepFolder(Path(to), stored_sweep(grid, ["rocketmq_emulator.spark.sweep"])) as folder:
        made = SparkSweep(lambda: spark, grid, folder, run_s_max=run_s_max)
        for _ in made.rows():
            look(made)
    return sweep_rows(spark, Path(to))


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# The driver ---------------------------------------------------------------------------


LOOK_EVERY_S = 0.2
PARTS_OF_A_FAILED_WAVE = 8
REASON_MAX = 300  # characters of Spark's error text


class SparkStopped(NobodyAnswered):
    """Spark has stopped; all finished rows are stored, and the same sweep can be resumed."""


class Wave(msgspec.Struct, frozen=True):
    """One job: *orders* in tasks of *sizes*."""

    name: str
    orders: list[RowSpec]
    sizes: list[int]


class SparkSweep:
    """Runs the missing rows of *grid*; ``tallies`` count the verdicts of each cell, by digest.

    *spark* is called only if rows have to be run; ``first_bad`` is the row of the lowest seed that
    did not pass.
    *look* is called some times a second while the driver waits for rows.
    """

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        grid: SweepGrid,
        folder: SweepFolder,
        *,
        run_s_max: float = RUN_S_MAX,
        look: Callable[[], object] = lambda: None,
    ) -> None:
        self.grid = grid
        self.stale_count = 0  # rows in the folder made by other code or for other cells
        count = len(grid.asked.seeds)
        self.tallies = {cell.made_from: SweepTally(cell.plan, count) for cell in grid.cells}
        self.first_bad: SweptRow | None = None
        self._start = spark
        self._folder = folder
        self._run_s_max = run_s_max
        self._look = look
        kept = self._kept()
        self._seen = {row.key for row in kept}
        self._known_count = len(kept)
        self._unsaved: dict[RowKey, SweptRow] = {}
        self._work = PendingRows(grid, frozenset(self._seen))
        self._times = RunTimes()
        self._waves = 0
        self._running: dict[Future[pa.Table], Wave] = {}
        self._retries: deque[list[RowSpec]] = deque()

    @property
    def done(self) -> int:
        """The count of finished rows."""
        return len(self._seen)

    @property
    def new_count(self) -> int:
        """The count of finished rows that were not in the folder before."""
        return len(self._seen) - self._known_count

    def rows(self) -> Iterator[SweptRow]:
        """The missing rows, each as it finishes.  Raises ``SparkStopped``."""
        if not self._work.left:
            return
        self._spark = self._start()
        tag = f"sweep-{self._folder.token}"
        pool = ThreadPoolExecutor(WAVES_AT_ONCE, initializer=self._spark.addTag, initargs=(tag,))
        try:
            with pool:
                try:
                    yield from self._rows_of_waves(pool)
                finally:  # also after Ctrl-C, or when the caller stops early
                    if self._running and self._is_spark_running():
                        self._spark.interruptTag(tag)
        finally:
            for _ in self._logged():
                continue  # finished in the meantime: stored
            self._folder.add([*self._unsaved.values()])

    def _kept(self) -> list[SweptRow]:
        """The folder's rows except errors: an error may not occur again, so it is run again."""
        seeds = self.grid.asked.seeds
        found: dict[RowKey, SweptRow] = {}
        for row in self._folder.known():
            if row.made_from not in self.tallies:
                self.stale_count += 1
            elif row.seed in seeds:
                found[row.key] = row
        answers = [row for row in found.values() if row.verdict != "error"]
        for row in answers:
            self._count(row, is_cached=True)
        return answers

    def _rows_of_waves(self, pool: ThreadPoolExecutor) -> Iterator[SweptRow]:
        while True:
            while len(self._running) < WAVES_AT_ONCE and (wave := self._next_wave()) is not None:
                self._running[pool.submit(self._run, wave)] = wave
            if not self._running:
                assert not self._work.left, "rows wait for none that is under way"
                return
            finished, _ = wait(self._running, LOOK_EVERY_S, FIRST_COMPLETED)
            yield from self._logged()
            for future in finished:
                yield from self._wave_finished(future, self._running.pop(future))
            self._look()

    # Waves --------------------------------------------------------------------------------

    def _next_wave(self) -> Wave | None:
        if self._retries:
            orders = self._retries.popleft()
            return self._wave(orders, [1] * len(orders))
        cores = self._spark.sparkContext.defaultParallelism
        sizes = tasks_of_wave(self._work.left, cores, self._times.mean_s)
        orders = self._work.take(sum(sizes))
        if not orders:
            return None
        return self._wave(orders, sizes)

    def _wave(self, orders: list[RowSpec], sizes: list[int]) -> Wave:
        self._waves += 1
        return Wave(f"wave{self._waves:06}", orders, sizes)

    def _run(self, wave: Wave) -> pa.Table:
        """Run the job of *wave*; called in a thread of the pool."""
        import pyarrow as pa  # noqa: PLC0415  # an extra

        tasks = [task for task, size in enumerate(wave.sizes) for _ in range(size)]
        columns = {
            "task": pa.array(tasks, pa.int32()),
            "seed": pa.array([order.seed for order in wave.orders], pa.int64()),
            "order": pa.array(_encoded(wave.orders), pa.binary()),
        }
        settings = TaskSettings(
            folder=str(self._folder.path),
            token=self._folder.token,
            wave=wave.name,
            run_s_max=self._run_s_max,
            paths=(str(Path.cwd()),),
        )
        return (
            self._spark.createDataFrame(pa.table(columns))
            .repartitionById(len(wave.sizes), "task")
            .mapInArrow(partial(run_task, settings), _returned_columns())
            .toArrow()
        )

    def _wave_finished(self, future: Future[pa.Table], wave: Wave) -> Iterator[SweptRow]:
        """The rows of a finished wave; its logs are no longer needed then."""
        error = future.exception()
        if error is not None:
            yield from self._failed(wave, error)
        else:
            for shipped in read_rows(future.result()):
                yield from self._accepted(shipped)
        made = [self._unsaved.pop(each.key, None) for each in wave.orders]
        self._folder.add([row for row in made if row is not None])
        self._folder.logs.forget(wave.name)

    def _failed(self, wave: Wave, error: BaseException) -> Iterator[SweptRow]:
        """The job failed: each attempt of a task ended with its worker or its machine."""
        if not self._is_spark_running():
            raise SparkStopped(f"Spark has ended: {_first_line(error)}") from error
        left = [order for order in wave.orders if order.key not in self._seen]
        if len(left) == 1:
            reason = f"Spark gave it up: {_first_line(error)}"
            yield from self._accepted(ShippedRow(left[0].lost(reason)))
        if len(left) < 2:
            return
        size = -(-len(left) // PARTS_OF_A_FAILED_WAVE)
        self._retries += [left[at : at + size] for at in range(0, len(left), size)]

    def _is_spark_running(self) -> bool:
        try:
            return not self._spark.sparkContext._jsc.sc().isStopped()  # noqa: SLF001  # there is no other way to ask
        except Exception:  # noqa: BLE001  # a broken Py4J socket raises any exception
            return False

    # Rows ---------------------------------------------------------------------------------

    def _logged(self) -> Iterator[SweptRow]:
        for row in self._folder.logs.new_rows():
            yield from self._accepted(ShippedRow(row))

    def _accepted(self, shipped: ShippedRow) -> Iterator[SweptRow]:
        """The row of *shipped*, unless it was accepted before."""
        row = shipped.row
        if row.key in self._seen or row.made_from not in self.tallies:
            return
        if shipped.journal is not None:
            row = self._folder.keep_journal(row, shipped.journal)
        self._seen.add(row.key)
        self._unsaved[row.key] = row
        self._count(row, is_cached=False)
        self._times.add(row.took_s)
        yield row

    def _count(self, row: SweptRow, *, is_cached: bool) -> None:
        self.tallies[row.made_from].add(row, cached=is_cached)
        is_first = self.first_bad is None or row.seed < self.first_bad.seed
        if row.verdict != "passed" and is_first:
            self.first_bad = row


def _encoded(orders: list[RowSpec]) -> list[bytes]:
    """*orders* as JSON without seeds: those of one cell are equal, and encoded and read once."""
    texts: dict[tuple[str, int], bytes] = {}
    for order in orders:
        key = (order.made_from, id(order.plan))
        if key not in texts:
            texts[key] = msgspec.json.encode(msgspec.structs.replace(order, seed=0))
    return [texts[order.made_from, id(order.plan)] for order in orders]


def _returned_columns() -> T.StructType:
    return spark_schema(SweptRow).add(SHIPPED, T.BinaryType())


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:REASON_MAX]
