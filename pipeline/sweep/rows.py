"""A row of a sweep: the result of a run, and a digest of everything that determines the run.

It is Arrow between executors and driver, and in Parquet; a line of JSON in the log of a task.
A task's rows reach the driver when the task ends.  Until then each is a line in the task's log,
written as soon as its run is over: a driver or an executor that is killed loses only the runs in
progress, and a second attempt of a task repeats no finished row.

A row that kills its own worker (``os._exit`` in a question) would fail each attempt.  From the
second attempt on, the log also has a line for each row that is begun; a row that an earlier
attempt has begun and not finished is given up.
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


RowKey: TypeAlias = tuple[str, int]  # made_from, seed
SHIPPED = "shipped_journal"  # zstd; null: not kept, or already in the sweep's folder


class SweptRow(RunResult, frozen=True, kw_only=True):
    """``made_from`` is a digest of everything that determines the run, except its seed.

    It is the digest of a ``Cell``: rows of another version of the code or the plan differ in it.
    """

    made_from: str

    @property
    def key(self) -> RowKey:
        """Identifies the row within a sweep."""
        return self.made_from, self.seed


class ShippedRow(msgspec.Struct, frozen=True):
    """A row sent to the driver, with its journal if the driver cannot read the file."""

    row: SweptRow
    journal: bytes | None = None


def swept(row: RunResult, made_from: str, journal: str | None = None) -> SweptRow:
    """*row* as a row of a sweep; *journal* replaces the path of its journal if given."""
    fields = msgspec.structs.asdict(row)
    if journal is not None:
        fields["journal"] = journal
    return SweptRow(**fields, made_from=made_from)


def stored_schema() -> pa.Schema:
    """The schema of the Parquet files."""
    return arrow_schema(SweptRow)


def returned_schema() -> pa.Schema:
    """The schema of the batches that an executor returns."""
    import pyarrow as pa  # noqa: PLC0415  # loaded only for writing

    return stored_schema().append(pa.field(SHIPPED, pa.binary()))


def stored_batch(rows: Sequence[SweptRow]) -> pa.RecordBatch:
    """*rows* as a batch for a Parquet file."""
    return arrow_batch(SweptRow, rows)


def returned_batch(rows: Sequence[ShippedRow]) -> pa.RecordBatch:
    """*rows* as a batch that an executor returns."""
    import pyarrow as pa  # noqa: PLC0415

    batch = arrow_batch(SweptRow, [each.row for each in rows])
    journals = pa.array([each.journal for each in rows], pa.binary())
    return pa.RecordBatch.from_arrays([*batch.columns, journals], schema=returned_schema())


def read_rows(table: pa.Table) -> Iterator[ShippedRow]:
    """The rows of a table of either schema."""
    for batch in table.to_batches():
        for fields in batch.to_pylist(maps_as_pydicts="strict"):
            journal = fields.pop(SHIPPED, None)
            yield ShippedRow(msgspec.convert(fields, SweptRow), journal)


# Logs of tasks ------------------------------------------------------------------------


IN_PROGRESS, TOKEN = "under_way", "token"


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finished row, or the key of a row that was begun."""

    finished: SweptRow | None = None
    begun: RowKey | None = None


def log_folder(folder: str, token: str) -> tuple[Path, bool]:
    """The folder for logs on this machine, and whether it is in the folder of the sweep.

    It is if this machine finds the *token* of this sweep there; else it is a temporary folder.
    """
    shared = Path(folder) / IN_PROGRESS
    if _token_in(shared) == token:
        return shared, True
    own = own_folder(token)
    own.mkdir(parents=True, exist_ok=True)
    return own, False


def own_folder(token: str) -> Path:
    """The folder for logs and journals of running tasks, if the sweep's folder is not visible."""
    return Path(tempfile.gettempdir()) / f"rmqemu-sweep-{token}"


def _token_in(folder: Path) -> str:
    """The token of the sweep in *folder*; empty on a machine that cannot read the folder."""
    try:
        return (folder / TOKEN).read_text()
    except OSError:
        return ""


class TaskLog:
    """The log of one task; ``finished`` and ``given_up`` come from its earlier attempts.

    With ``marks``, ``begin`` writes a line; each row has to be added as soon as it is finished.
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
        """Log that the row *key* is begun, if ``marks``."""
        if self.marks:
            self._file.write(msgspec.json.encode(LogLine(begun=key)) + b"\n")

    def add(self, *rows: SweptRow) -> None:
        """Log *rows* as finished."""
        self._file.write(b"".join(msgspec.json.encode(LogLine(row)) + b"\n" for row in rows))

    def close(self) -> None:
        """Close the file; it stays for a later attempt of the task."""
        self._file.close()

    def delete(self) -> None:
        """Delete the file: no later attempt of the task needs it."""
        self.path.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[LogLine]:
    """All complete lines; a line that a killed process wrote in part is skipped."""
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
    """Reads the new rows of all logs in a folder; used by the driver."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_bytes: dict[str, int] = {}

    def new_rows(self) -> Iterator[SweptRow]:
        """The rows written since the last call."""
        with os.scandir(self._folder) as files:
            sizes = [(file.name, file.stat().st_size) for file in files]
        for name, size in sizes:
            if name.endswith(".jsonl") and size > self._read_bytes.get(name, 0):
                yield from self._new_in(name)

    def forget(self, prefix: str) -> None:
        """Delete the logs whose names begin with *prefix*: their rows are stored elsewhere."""
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
                continue  # two attempts of a task wrote at once, one on a lost machine
            if row is not None:
                yield row
