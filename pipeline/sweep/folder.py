"""A sweep's folder: the sweep's description, its rows, the journals of runs that did not pass.

    DIR/sweep.json         scenario, grid, seeds, releases, code version
    DIR/runs/*.parquet     one row per finished run (``SweptRow``); of two the newer counts
    DIR/journals/*.jsonl   of runs that did not pass
    DIR/under_way/         logs of tasks; after a kill the next start reads them
    DIR/tables/            written by ``rmqemu tables``

Only one driver writes there at a time.  ``sweep_rows`` reads a sweep: each varied parameter is
a column of its own type.
"""

from __future__ import annotations

import fcntl
import secrets
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

import msgspec
import zstandard
from pyspark.sql import Window as W  # noqa: N817  # as PySpark's own pages name them
from pyspark.sql import functions as F  # noqa: N812

from rocketmq_emulator.pipeline.sweep.grid import Kind, SweepGrid, SweepSpec
from rocketmq_emulator.pipeline.sweep.rows import (
    IN_PROGRESS,
    TOKEN,
    LogReader,
    SweptRow,
    read_rows,
    stored_batch,
    stored_schema,
)
from rocketmq_emulator.protocol.error_families import Misuse
from rocketmq_emulator.scenarios.files.parameters import Value
from rocketmq_emulator.scenarios.plan.plan import Plan
from rocketmq_emulator.scenarios.plan.result import code_version
from rocketmq_emulator.scenarios.sweeps.sweep import file_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SWEEP_FILE, RUNS, JOURNALS = "sweep.json", "runs", "journals"
FILES_MAX = 64  # Parquet files of rows; more are merged into one
SPARK_NAMES = {bool: "boolean", int: "bigint", float: "double", str: "string"}


class BadFolder(Misuse):
    """The folder cannot take this sweep, or holds no sweep; nothing was changed."""


class StoredCell(msgspec.Struct, frozen=True):
    """A combination of the grid, and the digest (``made_from``) of its rows."""

    varied: dict[str, Value]
    release: str
    made_from: str


class StoredSweep(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``sweep.json``.  ``grid`` has the typed values of each varied parameter."""

    name: str
    kind: Kind
    asked: SweepSpec
    grid: dict[str, tuple[Value, ...]]
    first_seed: int
    last_seed: int
    releases: tuple[str, ...]
    code_version: str
    command: str
    cells: tuple[StoredCell, ...]


def stored_sweep(grid: SweepGrid, command: Sequence[str]) -> StoredSweep:
    """The description of *grid* that is written to ``sweep.json``."""
    asked = grid.asked
    values = {
        name: tuple(dict.fromkeys(c.varied[name] for c in grid.cells)) for name in grid.varied
    }
    return StoredSweep(
        name=grid.name,
        kind=grid.kind,
        asked=asked,
        grid=values,
        first_seed=asked.first_seed,
        last_seed=asked.last_seed,
        releases=tuple(dict.fromkeys(cell.plan.cluster.release for cell in grid.cells)),
        code_version=code_version(),
        command=shlex.join(command),
        cells=tuple(StoredCell(c.varied, c.plan.cluster.release, c.made_from) for c in grid.cells),
    )


def read_sweep(path: Path) -> StoredSweep:
    """The description of the sweep in *path*.  Raises ``BadFolder``."""
    try:
        return msgspec.json.decode((path / SWEEP_FILE).read_bytes(), type=StoredSweep)
    except FileNotFoundError:
        raise BadFolder(f"{path} holds no sweep: there is no {SWEEP_FILE} in it") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise BadFolder(f"{path / SWEEP_FILE} cannot be read: {error}") from None


class SweepFolder:
    """The folder *path* while a driver writes to it: ``with SweepFolder(path, …) as folder``.

    Raises ``BadFolder`` if it has another scenario's sweep, or another driver writes to it.
    """

    def __init__(self, path: Path, about: StoredSweep) -> None:
        self.path = path.resolve()
        self.journals = self.path / JOURNALS
        self.token = secrets.token_hex(8)
        self.logs = LogReader(self.path / IN_PROGRESS)
        self._about = about
        self._runs = self.path / RUNS
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        if (self.path / SWEEP_FILE).exists() and (before := read_sweep(self.path)).name != (
            self._about.name
        ):
            raise BadFolder(
                f"{self.path} has a sweep of {before.name}: give one of {self._about.name} another"
            )
        for folder in (self._runs, self.journals, self.path / IN_PROGRESS):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = (self.path / IN_PROGRESS / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise BadFolder(f"another sweep is writing to {self.path}") from None
        text = msgspec.json.format(msgspec.json.encode(self._about), indent=1)
        _write_whole(self.path / SWEEP_FILE, text + b"\n")
        _write_whole(self.path / IN_PROGRESS / TOKEN, self.token.encode())
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            (self.path / IN_PROGRESS / TOKEN).unlink(missing_ok=True)
            self._lock.close()

    def known(self) -> Iterator[SweptRow]:
        """All rows in the folder, the newest last; rows left in logs by a kill are stored."""
        yield from self._stored()
        left = list(self.logs.new_rows())
        self.add(left)
        self.logs.forget("")
        yield from left

    def add(self, rows: Sequence[SweptRow]) -> None:
        """Store *rows*, all or none."""
        if rows:
            self._write(rows)
            if len(files := self._files()) > FILES_MAX:
                self._join(files)

    def keep_journal(self, row: SweptRow, shipped: bytes) -> SweptRow:
        """Write the journal *shipped* with *row* to this folder; return *row* with its path."""
        path = self.journals / journal_name(Plan(name=row.scenario), row.made_from, row.seed)
        path.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(shipped))
        return msgspec.structs.replace(row, journal=str(path))

    def _stored(self) -> Iterator[SweptRow]:
        import pyarrow.parquet as pq  # noqa: PLC0415  # an extra

        for file in self._files():
            yield from (each.row for each in read_rows(pq.read_table(file, partitioning=None)))

    def _files(self) -> list[Path]:
        return sorted(self._runs.glob("*.parquet"))

    def _write(self, rows: Sequence[SweptRow]) -> None:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415

        last = max((int(file.stem) for file in self._files() if file.stem.isdigit()), default=0)
        target = self._runs / f"{last + 1:08}.parquet"
        partial = target.with_name(f".{target.name}.partial")
        table = pa.Table.from_batches([stored_batch(rows)], stored_schema())
        pq.write_table(table, partial, compression="zstd")
        partial.replace(target)

    def _join(self, files: Iterable[Path]) -> None:
        """Merge *files* into one; if interrupted, some rows are stored twice: the newer counts."""
        newest = {row.key: row for row in self._stored()}
        self._write([*newest.values()])
        for file in files:
            file.unlink()


def journal_name(plan: Plan, made_from: str, seed: int) -> str:
    """The file name of one run's journal."""
    return f"{file_name(plan)}-{made_from[:8]}-seed{seed}.jsonl"


def sweep_rows(spark: SparkSession, path: Path) -> DataFrame:
    """The rows of the sweep in *path* that belong to its grid and seeds, each exactly once.

    First a column for each varied parameter, of its own type, then those of ``SweptRow``.
    Raises ``BadFolder``.
    """
    about = read_sweep(path)
    if not any((path / RUNS).glob("*.parquet")):
        raise BadFolder(f"{path} has no rows yet: no run was finished")
    varied = [name for name in about.grid if name not in SweptRow.__struct_fields__]
    stored = (
        spark.read.parquet(str(path / RUNS))
        .withColumn("_file", F.col("_metadata.file_name"))
        .where(F.col("seed").between(about.first_seed, about.last_seed))
    )
    newest_first = W.partitionBy("made_from", "seed").orderBy(F.desc("_file"))
    is_newest = F.row_number().over(newest_first) == 1
    rows = stored.withColumn("_is_newest", is_newest).where("_is_newest")
    return rows.join(
        F.broadcast(_cells(spark, about, varied)), on="made_from", how="inner"
    ).select(*varied, *SweptRow.__struct_fields__)


def _cells(spark: SparkSession, about: StoredSweep, varied: Sequence[str]) -> DataFrame:
    """One row for each cell: its digest (``made_from``) and its values."""
    types = [f"`{name}` {_spark_type(about.grid[name])}" for name in varied]
    values = [
        (cell.made_from, *(_of_one_type(cell.varied[name], about.grid[name]) for name in varied))
        for cell in about.cells
    ]
    return spark.createDataFrame(values, ", ".join(["made_from string", *types]))


def _spark_type(values: Sequence[Value]) -> str:
    return SPARK_NAMES[type(_of_one_type(values[0], values))]


def _of_one_type(value: Value, values: Sequence[Value]) -> Value:
    """*value*; a whole number becomes a float if *values* has floats."""
    return float(value) if any(isinstance(each, float) for each in values) else value


def _write_whole(path: Path, text: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(text)
    partial.replace(path)
