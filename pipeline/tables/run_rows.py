"""What a row of any table says of its run, and the runs as one Parquet file.

Tables are read without Spark, too, by DuckDB and pandas, which know nothing of batches.  So each
row has the columns ``OF_RUN``, and ``runs.parquet`` has one row for each run that counts: joined
on ``run`` and ``batch`` it leaves out runs that a later batch has with longer journals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from rocketmq_emulator.pipeline.schemas import arrow_batch, spark_schema
from rocketmq_emulator.pipeline.tables.facts import RUN
from rocketmq_emulator.pipeline.tables.journal_files import JournalRun

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

RUNS_FILE = "runs.parquet"
OF_RUN = {  # column of every row: the field of its run; some tables have columns of these names
    "run_release": "release",
    "run_seed": "seed",
    "run_parameters": "parameters",
    "run_code_version": "code_version",
}


class AddedRun(JournalRun, frozen=True, kw_only=True):
    """A row of the table ``runs``."""

    batch: int
    facts: int
    rejected: int  # lines, or the whole file
    facts_missing: int = 0  # as the disk of a journal was full: no verdict holds
    verdict: str = ""  # passed, failed or error; empty: not judged


def runs_table(spark: SparkSession, runs: Iterable[AddedRun]) -> DataFrame:
    """One row per run, with all fields of ``AddedRun``."""
    return spark.createDataFrame(_arrow(AddedRun, runs), spark_schema(AddedRun))


def write_runs(folder: Path, runs: Sequence[AddedRun]) -> None:
    """Write ``runs.parquet``, so that readers see the old file or the new one."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # takes 0.1 s: loaded only for writing

    unfinished = folder / f".{RUNS_FILE}.unfinished"
    pq.write_table(_arrow(AddedRun, runs), unfinished)
    unfinished.replace(folder / RUNS_FILE)


def run_columns(spark: SparkSession, runs: Iterable[JournalRun]) -> DataFrame:
    """The values of ``OF_RUN`` for each of *runs*, by scenario and run."""
    fields = [F.col(field).alias(name) for name, field in OF_RUN.items()]
    found = spark.createDataFrame(_arrow(JournalRun, runs), spark_schema(JournalRun))
    return F.broadcast(found.select(*RUN, *fields))


def with_run_columns(table: DataFrame, of_runs: DataFrame) -> DataFrame:
    """*table* and, at the end of each row, the columns of ``run_columns``."""
    return table.join(of_runs, on=[*RUN], how="left").select(*table.columns, *OF_RUN)


def _arrow(struct: type[JournalRun], runs: Iterable[JournalRun]) -> pa.Table:
    import pyarrow as pa  # noqa: PLC0415

    return pa.Table.from_batches([arrow_batch(struct, runs)])
