"""Rows per second that Spark reads from a topic, compared with a consumer and the Java client.

    python -m benchmarks.source [--messages N] [--only ours|real] [--json FILE]  # -: to stdout

From our cluster and from a real RocketMQ, with bodies of 100 bytes and of 1 KiB: the read loop
alone in one process (all columns; two of them), a Spark job on one core, our push consumer in
plain Python, and the official Java client.  Spark's start is measured separately.  Every figure
is a rate over the whole topic; that of the read loop is also given per second of CPU.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType
from rich.console import Console

from benchmarks import table
from benchmarks.clusters import OURS, REAL, running
from benchmarks.load import bench
from rocketmq_emulator.pipeline.session import spark_session
from rocketmq_emulator.pipeline.source.columns import ROW_SHAPE
from rocketmq_emulator.pipeline.source.data_source import RocketMQDataSource
from rocketmq_emulator.pipeline.source.options import SinkOptions
from rocketmq_emulator.pipeline.source.sending import send_all
from rocketmq_emulator.protocol.messages.message import MessageExt
from rocketmq_emulator.sync import PushConsumer

SIZES = (100, 1024)
COMMANDS = {"ours": (*OURS, "--set", "retained_bytes_max=0"), "real": REAL}
ROWS_A_BATCH = 10_000
TWO = StructType([ROW_SHAPE[name] for name in ("offset", "body")])
CONSUMED_S_MAX = 600
HEADINGS = ("rows/s", "100 B", "1 KiB")
Figures = dict[str, float]


def main() -> None:
    options = _options()
    began_s = time.perf_counter()
    spark = spark_session("benchmark", cores=1)
    spark.range(1).count()
    start_s = time.perf_counter() - began_s
    found: dict[str, dict[str, Figures]] = {}
    for side in [options.only] if options.only else COMMANDS:
        with running(COMMANDS[side]) as cluster:
            for size in SIZES:
                figures = measured(spark, cluster.namesrv, size, options.messages)
                found.setdefault(side, {})[str(size)] = figures
    spark.stop()
    text = json.dumps({"spark_start_s": start_s, **found}, indent=1) + "\n"
    if options.json == Path("-"):
        print(text, end="")
        return
    if options.json:
        options.json.write_text(text)
    console = Console()
    console.print(f"{table.machine()}; Spark's start takes {start_s:.1f} s")
    for side, by_size in found.items():
        rows = [
            (name, *(f"{by_size[str(size)][name]:,.0f}" for size in SIZES))
            for name in by_size[str(SIZES[0])]
        ]
        console.print(side, table.terminal(HEADINGS, rows))


def measured(spark: SparkSession, namesrv: str, size: int, count: int) -> Figures:
    """Every figure of a topic with *count* messages of *size* bytes."""
    topic = f"rows-{size}"
    fill(namesrv, topic, size, count)

    def job(shape: StructType) -> None:
        """Read every column of *shape* into the JVM and drop it."""
        read = spark.read.format("rocketmq").options(namesrv=namesrv, topic=topic)
        read.schema(shape).load().write.format("noop").mode("overwrite").save()

    job(TWO)  # the first one also starts Python's workers
    return {
        **{f"read loop, {name}": rate for name, rate in read_loop(namesrv, topic).items()},
        "Spark job, all columns": count / timed(lambda: job(ROW_SHAPE)),
        "Spark job, offset and body": count / timed(lambda: job(TWO)),
        "our push consumer": count / timed(lambda: consume(namesrv, topic, count)),
        "Java client": bench(namesrv, "consume", count, CONSUMED_S_MAX, topic)["msgs_per_s"],
    }


def fill(namesrv: str, topic: str, size: int, count: int) -> None:
    """Send *count* messages of *size* bytes with the sink, in batches."""
    body = pa.array([b"x" * size] * ROWS_A_BATCH)
    batch = pa.RecordBatch.from_arrays([body], names=["body"])
    options = SinkOptions(namesrv=(namesrv,), topic=topic)
    send_all([batch] * (count // ROWS_A_BATCH), options, 0)


def read_loop(namesrv: str, topic: str) -> Figures:
    """Rows per second of one process without Spark."""
    found: Figures = {}
    for name, shape in {"all columns": ROW_SHAPE, "offset and body": TWO}.items():
        given = {"namesrv": namesrv, "topic": topic}
        reader = RocketMQDataSource(CaseInsensitiveDict(given)).reader(shape)
        began_s, cpu_s, rows = time.perf_counter(), time.process_time(), 0
        for partition in reader.partitions():
            rows += sum(batch.num_rows for batch in reader.read(partition))
        found[name] = rows / (time.perf_counter() - began_s)
        found[f"{name}, a second of CPU"] = rows / (time.process_time() - cpu_s)
    return found


def consume(namesrv: str, topic: str, count: int) -> None:
    """Consume *count* messages of *topic* with a new group.  Raises ``TimeoutError``."""
    enough, seen = threading.Event(), [0]

    def listen(messages: list[MessageExt]) -> None:
        seen[0] += len(messages)
        if seen[0] >= count:
            enough.set()

    with PushConsumer(
        listen,
        {topic: "*"},
        group=f"plain-{time.time_ns()}",
        namesrv=namesrv,
        consume_from="CONSUME_FROM_FIRST_OFFSET",
        consume_batch_max=32,
        consume_threads_max=1,
    ):
        if not enough.wait(CONSUMED_S_MAX):
            raise TimeoutError(f"{seen[0]} of {count} messages in {CONSUMED_S_MAX} s")


def timed(action: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    action()
    return time.perf_counter() - began_s


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages in each topic")
    parser.add_argument("--only", choices=[*COMMANDS], help="only this side")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures here; - for stdout"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
