"""A sweep's row: a run's, and what it was made from.  As Arrow between executors and driver, and
in Parquet; as a line of JSON in the log of a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pipeline.schemas import arrow_batch, arrow_schema
from scenarios.result import RunResult

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
