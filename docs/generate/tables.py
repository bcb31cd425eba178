"""The reference of docs/tables.md: the rows and columns of each table, and the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from docs.generate.sections import DOCS, write_section
from rocketmq_emulator.checks.judging.table import METRICS as CHECKED
from rocketmq_emulator.pipeline.session import spark_session
from rocketmq_emulator.pipeline.tables.facts import RUN, journal_schema
from rocketmq_emulator.pipeline.tables.steps import GOLD, METRICS, SILVER, STEPS
from rocketmq_emulator.text.docstrings import docstring_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAGE = DOCS / "tables.md"
ORDER_COLUMNS = ("mono_us", "place", "node", "seq")
CHARS_MAX = 60  # of a type that is shown


def tables_text(spark: SparkSession) -> str:
    """A section for each table, silver before gold, and the metrics that checkers have too."""
    made: dict[str, DataFrame] = {"facts": spark.createDataFrame([], journal_schema())}
    while len(made) < len(STEPS) + 1:
        for name, step in STEPS.items():
            if name not in made and made.keys() >= set(step.reads):
                found = step.make(*(made[source] for source in step.reads))
                made[name] = spark.createDataFrame([], found.schema)  # a plan of one step
    lines: list[str] = []
    for title, steps in (("Silver", SILVER), ("Gold", GOLD)):
        lines += [f"### {title}", ""]
        for name in steps:
            lines += _table(name, made[name])
    return "\n".join([*lines, *_metrics()])


def _table(name: str, made: DataFrame) -> Iterator[str]:
    step = STEPS[name]
    said = docstring_of(step.make).replace("``", "`")
    yield f"#### {name}"
    yield ""
    yield said
    yield ""
    shown = [
        f"`{field.name}` {_short(field.dataType.simpleString())}"
        for field in made.schema
        if field.name not in RUN
    ]
    yield f"Columns, besides those of the run: {', '.join(shown)}."
    yield f"Made of {', '.join(f'`{source}`' for source in step.reads)}."
    yield ""


def _short(text: str) -> str:
    known = text.replace("struct<topic:string,broker:string,queue_id:bigint>", "queue")
    known = known.replace("struct<mono_us:bigint,place:bigint,node:string,seq:bigint>", "moment")
    return known if len(known) <= CHARS_MAX else known.partition("<")[0]


def _metrics() -> Iterator[str]:
    yield "### Metrics that checkers have too"
    yield ""
    yield "| metric | gold table | of a | unit | |"
    yield "|---|---|---|---|---|"
    for table, (of, names) in METRICS.items():
        for name in names:
            metric = CHECKED[name]
            yield f"| `{name}` | `{table}` | {of} | {metric.unit} | {metric.sentence} |"
    yield ""


if __name__ == "__main__":
    session = spark_session("docs", settings={"spark.ui.enabled": "false"})
    write_section(PAGE, "tables", tables_text(session))
    session.stop()
