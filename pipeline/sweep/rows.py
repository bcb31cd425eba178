"""A sweep's row: a run's, and what it was made from.

As Arrow between executors and driver, and in Parquet; as a line of JSON in the log of a task.
A task's rows reach the driver with its end.  Until then each is a line in its log, written as soon
as its run is over: a driver or an executor that is killed loses only the runs in progress, and a
task that is tried again runs none of its rows twice.

A row that ends its own worker (``os._exit`` in a question) would end each try.  From the second
try on a line says what is begun; what an earlier try has begun and not finished is given up.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

import msgspec

from rocketmq_emulator.pipeline.schemas import arrow_batch, arrow_schema
from rocketmq_emulator.scenarios.plan.result import RunResult

if TYPE_CHECKING:
    import pyarrow as pa


RowKey: TypeAlias = tuple[str, int]  # what it was made from, and the seed
SHIPPED = "shipped_journal"  # zstd; null: it was not kept, or lies in the sweep's folder


class SweptRow(RunResult, frozen=True, kw_only=True):
    """``made_from`` is a digest of all that the run follows from but its seed.

    It is that of a ``Cell``: rows of another version of the code or the plan have another one.
    """

    made_from: str

    @property
    def key(self) -> RowKey:
        """What it is known by."""
        return self.made_from, self.seed


class ShippedRow(msgspec.Struct, frozen=True):
    """A row on its way to the driver, with its journal where that could not be left in place."""

    row: SweptRow
    journal: bytes | None = None


def swept(row: RunResult, made_from: str, journal: str | None = None) -> SweptRow:
    """*row* as one of a sweep, with another place of its *journal* if one is given."""
    fields = msgspec.structs.asdict(row)
    if journal is not None:
        fields["journal"] = journal
    return SweptRow(**fields, made_from=made_from)


def stored_schema() -> pa.Schema:
    """Of the Parquet files."""
    return arrow_schema(SweptRow)


def returned_schema() -> pa.Schema:
    """Of what an executor gives back."""
    import pyarrow as pa  # noqa: PLC0415  # only where rows are written

    return stored_schema().append(pa.field(SHIPPED, pa.binary()))


def stored_batch(rows: Sequence[SweptRow]) -> pa.RecordBatch:
    """As it is written."""
    return arrow_batch(SweptRow, rows)


def returned_batch(rows: Sequence[ShippedRow]) -> pa.RecordBatch:
    """As an executor gives it back."""
    import pyarrow as pa  # noqa: PLC0415

    batch = arrow_batch(SweptRow, [each.row for each in rows])
    journals = pa.array([each.journal for each in rows], pa.binary())
    return pa.RecordBatch.from_arrays([*batch.columns, journals], schema=returned_schema())


def read_rows(table: pa.Table) -> Iterator[ShippedRow]:
    """The rows of either."""
    for batch in table.to_batches():
        for fields in batch.to_pylist(maps_as_pydicts="strict"):
            journal = fields.pop(SHIPPED, None)
            yield ShippedRow(msgspec.convert(fields, SweptRow), journal)


# Logs of tasks ------------------------------------------------------------------------


IN_PROGRESS, TOKEN = "under_way", "token"


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that was finished, or the key of one that was begun."""

    finished: SweptRow | None = None
    begun: RowKey | None = None


def log_folder(folder: str, token: str) -> tuple[Path, bool]:
    """Where this machine keeps logs, and whether that is the folder of the sweep itself.

    It is where a file in there has the *token* of this sweep; else a folder of temporary files.
    """
    shared = Path(folder) / IN_PROGRESS
    if _token_in(shared) == token:
        return shared, True
    own = own_folder(token)
    own.mkdir(parents=True, exist_ok=True)
    return own, False


def own_folder(token: str) -> Path:
    """Of a machine that does not see the sweep's: logs and journals of tasks that are not over."""
    return Path(tempfile.gettempdir()) / f"rmqemu-sweep-{token}"


def _token_in(folder: Path) -> str:
    """That of the sweep whose folder it is; empty on a machine that does not see the folder."""
    try:
        return (folder / TOKEN).read_text()
    except OSError:
        return ""


class TaskLog:
    """The log of one task, which may be its second try: ``finished`` and ``given_up`` say.

    With ``marks`` a line says what is begun; each row is then to be added when it is finished.
    """

    def __init__(self, path: Path, *, is_again: bool) -> None:
        self.path = path
        self.finished: dict[RowKey, SweptRow] = {}
        self.given_up: set[RowKey] = set()
        self.marks = is_again
        for line in _lines(path):
            if line.finished is not None:
                self.finished[line.finished.key] = line.finished
            elif line.begun is not None:
                self.given_up.add(line.begun)
        self.given_up -= self.finished.keys()
        self._file: IO[bytes] = path.open("ab", buffering=0)

    def begin(self, key: RowKey) -> None:
        """The row that is next."""
        if self.marks:
            self._file.write(msgspec.json.encode(LogLine(begun=key)) + b"\n")

    def add(self, *rows: SweptRow) -> None:
        """These are finished."""
        self._file.write(b"".join(msgspec.json.encode(LogLine(row)) + b"\n" for row in rows))

    def close(self) -> None:
        """It is read no more by this process."""
        self._file.close()

    def delete(self) -> None:
        """No other try of the task will need it."""
        self.path.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[LogLine]:
    """Whole lines; what a process that was killed left half is passed over."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return
    for line in text.splitlines():
        try:
            yield msgspec.json.decode(line, type=LogLine)
        except msgspec.MsgspecError:
            continue


class LogReader:
    """New rows of all logs in a folder, whenever it is asked; for the driver."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_bytes: dict[str, int] = {}

    def new_rows(self) -> Iterator[SweptRow]:
        """Those that were written since it was asked last."""
        with os.scandir(self._folder) as files:
            sizes = [(file.name, file.stat().st_size) for file in files]
        for name, size in sizes:
            if name.endswith(".jsonl") and size > self._read_bytes.get(name, 0):
                yield from self._new_in(name)

    def forget(self, prefix: str) -> None:
        """Delete the logs whose names begin so: their rows are kept elsewhere."""
        for path in self._folder.glob(f"{prefix}*.jsonl"):
            path.unlink(missing_ok=True)
            self._read_bytes.pop(path.name, None)

    def _new_in(self, name: str) -> Iterator[SweptRow]:
        with (self._folder / name).open("rb") as file:
            file.seek(self._read_bytes.get(name, 0))
            text = file.read()
        whole = text.rfind(b"\n") + 1
        self._read_bytes[name] = self._read_bytes.get(name, 0) + whole
        for line in text[:whole].splitlines():
            try:
                row = msgspec.json.decode(line, type=LogLine).finished
            except msgspec.MsgspecError:
                continue  # two tries of a task wrote at once, one of them on a machine given up
            if row is not None:
                yield row
