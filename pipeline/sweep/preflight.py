"""Before a sweep on a cluster: check that its executors can run the code of this driver.

They need the same code and the same release of Python: both determine a run.  A difference is
reported once, before the sweep, and not in thousands of rows.
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

PROBES_A_CORE = 2  # tasks per core, so that most executors run one
CAUSE_MAX = 300  # characters
A_CAUSE = re.compile(r"Cannot run program|^\w*(Error|Exception): |No module named")
DOCS = "see `rmqemu docs sweep`"


class ExecutorFound(msgspec.Struct, frozen=True):
    """The versions on one executor; ``folder`` is where it loaded this code from."""

    host: str
    folder: str
    python: str
    code_version: str


def check_executors(spark: SparkSession) -> list[ExecutorFound]:
    """The distinct executors that answered; empty for a local session, where no probe is run.

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
    """The useful line of Spark's error text: the innermost error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if A_CAUSE.search(line) and not line.startswith("at ")]
    return (causes or lines or ["Spark gave no reason"])[-1][:CAUSE_MAX]


def _described(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        continue
    yield arrow_batch(ExecutorFound, [ExecutorFound(*_of_this_process())])


def _of_this_process() -> tuple[str, str, str, str]:
    from rocketmq_emulator.scenarios.plan.result import code_version  # noqa: PLC0415  # loaded on the executor

    folder = str(Path(__file__).parents[3])
    return socket.gethostname(), folder, platform.python_version(), code_version()
