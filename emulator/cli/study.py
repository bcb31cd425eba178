"""``rmqemu study DIR``: a sweep as one HTML page, with tables beside it, made on Spark.

Nothing of Spark is loaded before it is known to be here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.cli.errors import BadUse, plain_errors

if TYPE_CHECKING:
    from pipeline.studies.study import Study

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of `rmqemu sweep --to`.")]
Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="The page.  [DIR/study.html]")
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Show this metric; repeatable.  Without: those that expectations name, then those "
        "that differ most between combinations.",
    ),
]
Title = Annotated[str, typer.Option(help="What stands on top of the page.")]


def study(folder: Folder, output: Output = "", metric: Metrics = None, title: Title = "") -> None:
    """Draw what a sweep found on one HTML page, with tables.

    Each number leads to the seed behind it and to the command that replays it.  What the plots
    show stands beside the page as CSV and Parquet, in a folder named as the page is.
    """
    with plain_errors():
        page = Path(output) if output else folder / "study.html"
        made = _studied(folder, metric or [])
        if title:
            from msgspec.structs import replace  # noqa: PLC0415

            made = replace(made, about=replace(made.about, title=title))
        from pipeline.studies.files import write_files  # noqa: PLC0415
        from pipeline.studies.page import write_study_page  # noqa: PLC0415

        page.write_text(write_study_page(made), encoding="utf-8")
        tables = page.with_suffix("")
        write_files(made, tables)
        typer.echo(f"{page}: {_summary(made)}; tables in {tables}")


def _studied(folder: Path, metrics: list[str]) -> Study:
    """Raises ``BadUse`` for whatever cannot be studied, before Spark is started if it can."""
    from pipeline.session import SparkNotHere, check_spark, spark_session  # noqa: PLC0415

    try:
        check_spark()
    except SparkNotHere as error:
        raise BadUse(str(error)) from None
    from pipeline.studies.metrics_shown import NoSuchMetric  # noqa: PLC0415
    from pipeline.studies.reading import study_of  # noqa: PLC0415
    from pipeline.studies.study import NothingToStudy  # noqa: PLC0415
    from pipeline.sweep.folder import BadFolder, read_sweep  # noqa: PLC0415

    try:
        read_sweep(folder)
        return study_of(spark_session(f"study {folder.name}"), folder, metrics)
    except (BadFolder, NoSuchMetric, NothingToStudy) as error:
        raise BadUse(str(error)) from None


def _summary(made: Study) -> str:
    combinations = len(made.cells)
    text = f"{made.runs:,} runs of {combinations:,} combination{'s' * (combinations != 1)}"
    if bad := sum(cell.failed + cell.error for cell in made.cells):
        text += f", {bad:,} did not pass"
    return f"{text}, {len(made.metrics)} metrics"
