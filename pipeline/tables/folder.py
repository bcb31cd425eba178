"""A folder of tables that grows by runs: adding a run does not read the earlier ones again.

    folder = TableFolder(Path("tables"))
    folder.add([Path("journals")])
    folder.table("delivery").show()

Journals are added in batches.  Readers ignore the files of a batch until its one small file in
``batches/`` exists: a job that dies leaves no partial batch, and the next job removes its files.
That small file and ``runs.parquet`` are written by a rename, or on a store without renames as one
object; this code renames nothing else.

    batches/00001.json                              the runs that were added, and their files
    runs.parquet                                    the runs that count, one row each
    bronze/batch=1/scenario=S/run=R/*.parquet       facts, and lines that are no facts
    rejected/batch=1/*.parquet                      lines and files that cannot be read
    silver/NAME/batch=1/*.parquet, gold/NAME/…      made from these when first requested
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from graphlib import TopologicalSorter
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from rocketmq_emulator.pipeline.schemas import spark_schema
from rocketmq_emulator.pipeline.session import JAVA_OPTIONS, cause_of, spark_session
from rocketmq_emulator.pipeline.tables.journal_files import JournalRun, runs_in
from rocketmq_emulator.pipeline.tables.lines import (
    bronze_rows,
    bronze_schema,
    lines_of,
    parsed,
    rejected_rows,
)
from rocketmq_emulator.pipeline.tables.run_rows import (
    OF_RUN,
    AddedRun,
    run_columns,
    runs_table,
    with_run_columns,
    write_runs,
)
from rocketmq_emulator.pipeline.tables.steps import GOLD, SILVER, STEPS
from rocketmq_emulator.protocol.error_families import CannotDoHere, Misuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_RUNS_MAX = 500  # of one batch: a job that dies loses one batch
BATCH_BYTES_MAX = 8 << 30  # of all journals of a batch with more than one run
TABLES_AT_ONCE = 2  # made at the same time: while one is planned, the tasks of another run
SMALL = {  # for journals whose own work takes less time than Spark's
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:ReservedCodeCacheSize=256m",  # one compiler alone would get 48 MB, which 28 tables fill
    "spark.sql.adaptive.enabled": "false",  # it plans each stage again, and starts a job for each
    "spark.sql.shuffle.partitions": "2",
}
INTERPRETED = {  # no Java is written and compiled for each query
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
SETTINGS = ((1 << 24, SMALL | INTERPRETED), (1 << 28, SMALL))  # up to so many bytes of journals
REJECTED = (
    T.StructType()
    .add("scenario", T.StringType())
    .add("run", T.StringType())
    .add("file", T.StringType())
    .add("line", T.LongType())
    .add("reason", T.StringType())
    .add("text", T.StringType())
)
BASE_TABLES = ("runs", "rejected", "facts")


class UnknownTable(Misuse):
    """No table has that name; the text lists the tables."""


class TableFolderBusy(CannotDoHere):
    """Another process adds to this folder; nothing was changed."""


class TableNotMade(CannotDoHere):
    """Spark could not write a table; the text names it, Spark's reason, and the kept tables."""


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``add``."""

    runs: tuple[AddedRun, ...]  # the new ones; with ``why``: listed in ``rejected``, and not read
    known: int  # runs that were there already; only their first lines were read
    facts: int
    rejected: int


class _Batch(msgspec.Struct, frozen=True):
    """The content of one file of ``batches/``."""

    batch: int
    runs: tuple[AddedRun, ...]


class LineCounts(NamedTuple):
    """The lines of a run's journals, and the facts that a full disk left out of them."""

    facts: int = 0
    rejected: int = 0
    facts_missing: int = 0


Progress = Callable[[int, int], object]  # finished runs, all runs
TableMade = Callable[[str, int, int], object]  # its name, finished tables, all tables
Judge = Callable[[JournalRun], Callable[[], str]]  # starts; the result waits for the verdict


class TableFolder:
    """The tables in the folder *path*; *spark* is by default a session on this machine.

    *java_options* are added to those of such a session.
    """

    def __init__(
        self, path: Path | str, spark: SparkSession | None = None, *, java_options: str = ""
    ) -> None:
        self.path = Path(path).absolute()  # Spark may have started in another folder
        self._spark = spark
        self._java_options = java_options
        self._new_bytes = 0  # of journals that are being added
        self._schemas: dict[str, T.StructType] = {}  # of made tables: Spark would read a file
        self._of_runs: dict[int, DataFrame] = {}  # by batch: see ``run_columns``

    @property
    def spark(self) -> SparkSession:
        """The session, started at the first call.  Raises ``SparkUnavailable``."""
        if self._spark is None:
            journal_bytes = self._new_bytes + sum(run.bytes for run in self._current())
            settings = next((row for most, row in SETTINGS if journal_bytes <= most), {})
            options = f"{settings.get(JAVA_OPTIONS, '')} {self._java_options}".strip()
            settings = {**settings, JAVA_OPTIONS: options}
            self._spark = spark_session("rmqemu tables", settings=settings)
        return self._spark

    # Adding -------------------------------------------------------------------------------

    def add(
        self,
        journals: Iterable[Path | str],
        progress: Progress | None = None,
        *,
        judge: Judge | None = None,
    ) -> Added:
        """Read the runs of *journals*, files and folders, that are not in this folder yet.

        A known run is read again only if its journal has grown; it replaces the shorter one.
        *judge* is called with each new run before the first is read, and what it returns when
        the verdict is needed.  Raises ``NoJournals``, ``TableFolderBusy``, ``SparkUnavailable``,
        ``TableNotMade``.
        """
        found = runs_in(map(Path, journals))
        with self._locked():
            self._remove_unfinished()
            known = {run.run: run.bytes for run in self._current()}
            new = [run for run in found if run.bytes > known.get(run.run, -1)]
            self._new_bytes = sum(run.bytes for run in new)
            verdicts = {run.run: judge(run) for run in new if judge and not run.why}
            added: list[AddedRun] = []
            for runs in _batches(new):
                added += self._add_batch(runs, verdicts)
                if progress is not None:
                    progress(len(added), len(new))
        return Added(
            runs=tuple(added),
            known=len(found) - len(new),
            facts=sum(run.facts for run in added),
            rejected=sum(run.rejected for run in added),
        )

    def _add_batch(
        self, runs: Sequence[JournalRun], verdicts: Mapping[str, Callable[[], str]]
    ) -> list[AddedRun]:
        number = max((batch.batch for batch in self._committed()), default=0) + 1
        self._of_runs[number] = run_columns(self.spark, runs)
        journals = {file: run for run in runs if not run.why for file in run.files}
        counts = self._write_facts(number, journals) if journals else {}
        foreign = [run for run in runs if run.why]
        if foreign:
            self._reject(number, foreign)
            counts |= {run.run: LineCounts(rejected=1) for run in foreign}
        added = [
            AddedRun(
                **msgspec.structs.asdict(run),
                batch=number,
                **counts.get(run.run, LineCounts())._asdict(),
                verdict=verdicts[run.run]() if run.run in verdicts else "",
            )
            for run in runs
        ]
        self._commit(_Batch(number, tuple(added)))
        write_runs(self.path, self.runs())
        return added

    def _write_facts(self, number: int, journals: dict[str, JournalRun]) -> dict[str, LineCounts]:
        """Write facts and rejected lines; return their counts, by run."""
        counts: dict[str, LineCounts] = {}
        for schema in sorted({run.schema for run in journals.values()}):
            files = {file: run for file, run in journals.items() if run.schema == schema}
            lines = lines_of(self.spark, files)
            rows = with_run_columns(bronze_rows(parsed(lines, schema)), self._of_runs[number])
            place = str(self._place("bronze", number))
            with _written("facts"):
                rows.write.mode("append").partitionBy("scenario", "run").parquet(place)
            bronze = self._read_bronze([number])
            counts = self._counts(bronze)
            if any(each.rejected for each in counts.values()):
                table = with_run_columns(rejected_rows(bronze, lines), self._of_runs[number])
                table.write.mode("append").parquet(str(self._place("rejected", number)))
        return counts

    def _reject(self, number: int, foreign: Sequence[JournalRun]) -> None:
        rows = [(run.scenario, run.run, run.files[0], 0, run.why, "") for run in foreign]
        found = self.spark.createDataFrame(rows, REJECTED)
        table = with_run_columns(found, self._of_runs[number])
        table.write.mode("append").parquet(str(self._place("rejected", number)))

    def _counts(self, bronze: DataFrame) -> dict[str, LineCounts]:
        """The counts of lines by run; runs without a line are left out."""
        is_fact = F.col("kind").isNotNull()
        missing = F.sum("fact.missing_count")  # FactsLeftOut
        counts = bronze.groupBy("run").agg(
            F.count_if(is_fact).alias("facts"),
            F.count_if(~is_fact).alias("rejected"),
            F.coalesce(missing, F.lit(0)).alias("facts_missing"),
        )
        return {row.run: LineCounts(*row[1:]) for row in counts.collect()}

    # Tables -------------------------------------------------------------------------------

    def runs(self) -> list[AddedRun]:
        """The runs in this folder, ordered by scenario and seed; foreign files last."""
        return sorted(
            self._current(), key=lambda run: (bool(run.why), run.scenario, run.seed or 0, run.run)
        )

    def table(self, name: str) -> DataFrame:
        """The table *name*, of all runs.  Missing batches of it are made now, and stored.

        Raises ``UnknownTable``.
        """
        batches = [batch.batch for batch in self._committed()]
        if name == "runs":
            return runs_table(self.spark, self.runs())
        if name == "facts":
            return self._without_replaced(self._read_facts(batches))
        if name == "rejected":
            return self._without_replaced(self._read_rejected(batches))
        if name not in STEPS:
            known = ", ".join([*BASE_TABLES, *STEPS])
            raise UnknownTable(f"there is no table {name!r}; there are {known}")
        for batch in batches:
            self._make(name, batch)
        return self._without_replaced(self._read_made(name, batches))

    def make_all(self, progress: TableMade | None = None) -> None:
        """Make the missing batches of every silver and gold table, some at the same time.

        Raises ``TableNotMade``.
        """
        batches = self._committed()
        total, done = len(batches) * len(STEPS), count(1)
        with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
            try:
                for batch in batches:
                    for name in self._made_in_order(pool, batch.batch):
                        if progress is not None:
                            progress(name, next(done), total)
            finally:
                pool.shutdown(cancel_futures=True)

    def _made_in_order(self, pool: ThreadPoolExecutor, batch: int) -> Iterator[str]:
        """Make all tables of *batch*, each after those it reads; the names as they are made."""
        order = TopologicalSorter(
            {name: set(step.reads) - {"facts"} for name, step in STEPS.items()}
        )
        order.prepare()
        going: dict[Future[None], str] = {}
        while order.is_active():
            going |= {pool.submit(self._make, name, batch): name for name in order.get_ready()}
            for finished in wait(going, return_when=FIRST_COMPLETED).done:
                finished.result()
                order.done(name := going.pop(finished))
                yield name

    def _make(self, name: str, batch: int) -> None:
        """Make the table *name* of the runs of *batch*, unless it exists."""
        place = self._place_of(name, batch)
        if (place / "_SUCCESS").exists():
            return
        step = STEPS[name]
        for source in step.reads:
            if source != "facts":
                self._make(source, batch)
        sources = [
            self._read_facts([batch]) if source == "facts" else self._read_made(source, [batch])
            for source in step.reads
        ]
        with _written(name):
            made = step.make(*(source.drop("batch", *OF_RUN) for source in sources))
            table = with_run_columns(made, self._run_columns(batch))
            table.write.mode("overwrite").parquet(str(place))
        self._schemas[_place_in(name)] = table.schema

    def _run_columns(self, batch: int) -> DataFrame:
        if batch not in self._of_runs:
            (runs,) = (each.runs for each in self._committed() if each.batch == batch)
            self._of_runs[batch] = run_columns(self.spark, runs)
        return self._of_runs[batch]

    def _read_bronze(self, batches: Sequence[int]) -> DataFrame:
        written = [each for each in batches if self._place("bronze", each).exists()]
        return self._read("bronze", written, _with_run_fields(bronze_schema()))

    def _read_facts(self, batches: Sequence[int]) -> DataFrame:
        is_fact = F.col("kind").isNotNull()
        return self._read_bronze(batches).where(is_fact).drop("rejected")

    def _read_rejected(self, batches: Sequence[int]) -> DataFrame:
        written = [each for each in batches if self._place("rejected", each).exists()]
        return self._read("rejected", written, _with_run_fields(REJECTED))

    def _read_made(self, name: str, batches: Sequence[int]) -> DataFrame:
        place = _place_in(name)
        return self._read(place, batches, self._schemas.get(place))

    def _read(self, where: str, batches: Sequence[int], schema: T.StructType | None) -> DataFrame:
        """The rows of *batches*, with the column ``batch``."""
        if not batches:
            if schema is None:
                raise UnknownTable(f"{self.path} has no journals yet: add some")
            return self.spark.createDataFrame([], T.StructType([*schema]).add("batch", "long"))
        reader = self.spark.read.option("basePath", str(self.path / where))
        if schema is not None:
            reader = reader.schema(T.StructType([*schema]).add("batch", "long"))
        return reader.parquet(*(str(self._place(where, batch)) for batch in batches))

    def _without_replaced(self, table: DataFrame) -> DataFrame:
        """*table* without runs that a later batch has with longer journals."""
        current = {run.run: run.batch for run in self._current()}
        for batch in self._committed():
            gone = [run.run for run in batch.runs if current[run.run] != batch.batch]
            if gone:
                table = table.where(~((F.col("batch") == batch.batch) & F.col("run").isin(gone)))
        return table.drop("batch")

    # Places -------------------------------------------------------------------------------

    def _place(self, where: str, batch: int) -> Path:
        return self.path / where / f"batch={batch}"

    def _place_of(self, name: str, batch: int) -> Path:
        return self._place(_place_in(name), batch)

    def _committed(self) -> list[_Batch]:
        files = sorted((self.path / "batches").glob("*.json"))
        return [msgspec.json.decode(file.read_bytes(), type=_Batch) for file in files]

    def _current(self) -> list[AddedRun]:
        """The latest entry of each run."""
        return list({run.run: run for batch in self._committed() for run in batch.runs}.values())

    def _commit(self, batch: _Batch) -> None:
        folder = self.path / "batches"
        folder.mkdir(exist_ok=True)
        unfinished = folder / f"{batch.batch:05}.unfinished"
        unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(batch), indent=1))
        unfinished.replace(folder / f"{batch.batch:05}.json")

    def _remove_unfinished(self) -> None:
        """Delete the files of a job that died before its batch existed."""
        after = max((batch.batch for batch in self._committed()), default=0)
        for where in ("bronze", "rejected"):
            for number in count(after + 1):
                place = self._place(where, number)
                if not place.exists():
                    break
                shutil.rmtree(place)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock; the system releases it if the process dies."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TableFolderBusy(
                    f"another process adds journals to {self.path}; nothing was added: wait for it"
                ) from None
            yield


@contextmanager
def _written(name: str) -> Iterator[None]:
    """Raise ``TableNotMade`` if Spark fails; a reader ignores what it has written."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise TableNotMade(
            f"Spark could not write the table {name}: {cause_of(error)}; finished tables are "
            "kept, and the same call makes the others"
        ) from error


def _place_in(name: str) -> str:
    assert name in STEPS
    return f"{'silver' if name in SILVER else 'gold'}/{name}"


def _batches(runs: Sequence[JournalRun]) -> Iterator[list[JournalRun]]:
    batch: list[JournalRun] = []
    for run in runs:
        is_full = sum(each.bytes for each in batch) + run.bytes > BATCH_BYTES_MAX
        if batch and (is_full or len(batch) == BATCH_RUNS_MAX):
            yield batch
            batch = []
        batch.append(run)
    if batch:
        yield batch


def _with_run_fields(schema: T.StructType) -> T.StructType:
    """*schema* and the columns of ``with_run_columns``."""
    found = T.StructType([*schema])
    of_run = spark_schema(JournalRun)
    return T.StructType(
        [*found, *(T.StructField(k, of_run[f].dataType) for k, f in OF_RUN.items())]
    )


assert not set(SILVER) & set(GOLD)
