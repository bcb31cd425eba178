"""A streaming query as a program: from a topic into Parquet files, with a checkpoint.

    python tests/support/pipeline/streaming_query.py NAMESRV TOPIC FOLDER forever|to_the_end

Tests kill it.  ``to_the_end`` reads all messages that there are, ends, and prints a summary of
the sink: a line of JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import functions as F  # noqa: N812  # as Spark's users write it

from rocketmq_emulator.pipeline.session import JAVA_OPTIONS, spark_session
from rocketmq_emulator.pipeline.tables.folder import INTERPRETED

OFFSETS_PER_TRIGGER = 400
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


def main(namesrv: str, topic: str, folder: str, how: str) -> None:
    spark = spark_session("killed", cores=1, settings=INTERPRETED | {JAVA_OPTIONS: JAVA})
    source = (
        spark.readStream.format("rocketmq")
        .schema("body binary, broker string, queue_id int, offset long")
        .option("namesrv", namesrv)
        .option("topic", topic)
        .option("group", "parquet")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", OFFSETS_PER_TRIGGER)
        .load()
    )
    sink = (
        source.select(F.col("body").cast("string").alias("body"), "broker", "queue_id", "offset")
        .writeStream.format("parquet")
        .option("path", f"{folder}/sink")
        .option("checkpointLocation", f"{folder}/checkpoint")
    )
    if how == "forever":
        sink.start().awaitTermination()
        return
    query = sink.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    end = json.loads(progress["sources"][0]["endOffset"])
    rows = spark.read.parquet(f"{folder}/sink")
    found = rows.agg(
        F.count("*").alias("rows"),
        F.countDistinct("body").alias("bodies"),
        F.countDistinct("broker", "queue_id", "offset").alias("places"),
        F.min("body").alias("first"),
        F.max("body").alias("last"),
    ).first()
    assert found is not None
    sys.stdout.write(json.dumps({**found.asDict(), "lost": end["lost"]}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
