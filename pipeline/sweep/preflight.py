"""Before a sweep on a cluster: can its executors run what this driver sends?

They need this very code and the same release of Python: a run follows from both.  What is wrong
there is said once, and not by thousands of rows.
"""

from __future__ import annotations

import platform
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rocketmq_emulator.pipeline.schemas import arrow_batch, spark_schema
from rocketmq_emulator.pipeline.session import SparkUnavailable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PROBES_A_CORE = 2  # tasks, so that most executors have one
CAUSE_MAX = 300  # characters
A_CAUSE = re.compile(r"Cannot run program|^\w*(Error|Exception): |No module named")
DOCS = "see docs/sweep.md"


class ExecutorFound(msgspec.Struct, frozen=True):
    """What one executor has; ``folder`` is where it loaded this code from."""

    host: str
    folder: str
    python: str
    code_version: str


def check_executors(spark: SparkSession) -> list[ExecutorFound]:
    """The different ones that answered; none are asked on this machine alone.

    Raises ``SparkUnavailable``.
    """
    if (spark.sparkContext.master or "").startswith("local"):
        return []
    tasks = spark.sparkContext.defaultParallelism * PROBES_A_CORE
    schema = spark_schema(ExecutorFound)
    try:
        found = spark.range(0, tasks, 1, tasks).mapInArrow(_described, schema).distinct().collect()
    except Exception as error:
        raise SparkUnavailable(
            f"the executors cannot run this code ({_cause_in(str(error))}): they need this Python "
            f"and its packages, packed or installed: {DOCS}"
        ) from error
    executors = [ExecutorFound(*row) for row in found]
    ours = ExecutorFound(*_of_this_process())
    for one in executors:
        for field in ("python", "code_version"):
            theirs, here = getattr(one, field), getattr(ours, field)
            if theirs != here:
                raise SparkUnavailable(
                    f"{one.host} has {field.replace('_', ' ')} {theirs}, this driver {here}: "
                    f"runs would differ; pack this environment again: {DOCS}"
                )
    return executors


def _cause_in(text: str) -> str:
    """The line that people need of what Spark says: the innermost error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if A_CAUSE.search(line) and not line.startswith("at ")]
    return (causes or lines or ["it does not say why"])[-1][:CAUSE_MAX]


def _described(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        continue
    yield arrow_batch(ExecutorFound, [ExecutorFound(*_of_this_process())])


def _of_this_process() -> tuple[str, str, str, str]:
    from rocketmq_emulator.scenarios.plan.result import code_version  # noqa: PLC0415  # where it runs

    folder = str(Path(__file__).parents[3])
    return socket.gethostname(), folder, platform.python_version(), code_version()
