"""``rmqemu tables JOURNAL… --to DIR``: journals become tables, on Spark; what is there stays.

Nothing of Spark is loaded before it is known to be here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from emulator.cli.columns import clean
from emulator.cli.errors import BadUse, hint, plain_errors, say
from emulator.cli.shared import AsJson, make_console, show_json

if TYPE_CHECKING:
    from pipeline.tables.folder import Added, AddedRun, TableFolder

Journals = Annotated[
    list[Path],
    typer.Argument(metavar="JOURNAL…", help="Journals (*.jsonl, *.jsonl.gz), or folders of them."),
]
To = Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder of the tables.")]
FactsOnly = Annotated[
    bool, typer.Option("--facts-only", help="Make silver and gold tables when they are asked for.")
]
ROWS_MAX = 20  # runs that the table shows
REJECTED_MAX = 5  # lines that it shows


def tables(
    journals: Journals, to: To, facts_only: FactsOnly = False, as_json: AsJson = False
) -> None:
    """Make tables of journals, for Spark, pandas and others (Parquet).

    Runs that are in DIR are not read again.  Lines that are no facts are rows of the table
    `rejected`.
    """
    with plain_errors():
        folder, added = _added(journals, to)
        if not facts_only:
            folder.make_all(lambda name: hint(f"making {name}"))
        rejected = _rejected(folder, added)
    if as_json:
        show_json({"added": added, "rejected": rejected})
    else:
        _show(added, rejected, to)


def _added(journals: list[Path], to: Path) -> tuple[TableFolder, Added]:
    from pipeline.session import SparkNotHere, check_spark  # noqa: PLC0415  # an extra

    try:
        check_spark()
        from pipeline.tables.folder import TableFolder, TableFolderBusy  # noqa: PLC0415
        from pipeline.tables.journal_files import NoJournals  # noqa: PLC0415
    except SparkNotHere as error:
        raise BadUse(str(error)) from None
    folder = TableFolder(to)
    try:
        return folder, folder.add(
            journals, lambda done, total: hint(f"read {done} of {total} new runs")
        )
    except (NoJournals, TableFolderBusy, SparkNotHere) as error:
        raise BadUse(str(error)) from None


def _rejected(folder: TableFolder, added: Added) -> list[dict[str, Any]]:
    """The first lines that were rejected now, of each file that has some."""
    if not added.rejected:
        return []
    names = [run.run for run in added.runs if run.rejected]
    found = folder.table("rejected")
    rows = found.where(found.run.isin(names)).orderBy("file", "line").limit(REJECTED_MAX).collect()
    return [row.asDict() for row in rows]


def _show(added: Added, rejected: list[dict[str, Any]], to: Path) -> None:
    if added.runs:
        from rich.table import Table  # noqa: PLC0415  # --json shows none

        table = Table(box=None, pad_edge=False)
        for heading, side in (("scenario", "left"), ("seed", "right"), ("release", "left")):
            table.add_column(heading, justify=side)  # type: ignore[arg-type]
        for heading in ("facts", "rejected"):
            table.add_column(heading, justify="right")
        for run in added.runs[:ROWS_MAX]:
            table.add_row(*_row(run))
        make_console().print(table)
        if len(added.runs) > ROWS_MAX:
            say(f"and {len(added.runs) - ROWS_MAX} more runs")
    for row in rejected:
        place = f"{row['file']}, line {row['line']}" if row["line"] else row["file"]
        say(clean(f"rejected: {place}: {row['reason']}"))
    if added.rejected > len(rejected):
        say(f"and {added.rejected - len(rejected)} more in the table rejected")
    new = sum(not run.why for run in added.runs)
    say(f"{new} runs added to {to} ({added.facts} facts), {added.known} were there already")


def _row(run: AddedRun) -> tuple[str, ...]:
    seed = "" if run.seed is None else str(run.seed)
    return clean(run.scenario), seed, run.release, str(run.facts), str(run.rejected)
