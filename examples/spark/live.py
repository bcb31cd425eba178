"""Counts orders with Spark while they are sent, and kills a broker during that.

    python examples/spark/live.py [--seconds 60] [--exit]

A mini-cluster of processes, a shop that sends orders, and two streaming queries: one counts
orders by window and region, one writes every message to a Parquet table.  A broker is killed (-9)
and restarted.  At the end both results are compared with the shop's counts: they must be equal.
The page at the printed address shows the counts live; Plotly draws it, from the extra ``study``.
Exit code 1: a count differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from live_page import Board, Page
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everywhere
from pyspark.sql.streaming import StreamingQuery

from rocketmq_emulator import ClientError, Message, ProcessCluster
from rocketmq_emulator.spark import register, spark_session
from rocketmq_emulator.sync import Producer

TOPIC = "orders"
REGIONS = ("north", "east", "south", "west")
WINDOW_S = 2
LATE = "2 minutes"  # longer than a broker is down: its orders are read late, but still count
COUNTING_S_MAX = 120  # from the start of the queries to their first counts
CAUGHT_UP_S_MAX = 90  # after the last order
ORDER = "number long, region string, at_ms long"


class Shop(threading.Thread):
    """Sends *rate* orders per second until it closes; unacknowledged orders are sent again."""

    def __init__(self, namesrv: str, board: Board, rate: int) -> None:
        super().__init__(name="shop", daemon=True)
        self._namesrv, self._board, self._rate = namesrv, board, rate
        self._closes = threading.Event()
        self.repeated = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        """Send one order after the other, at its time or as soon as the previous one is sent."""
        try:
            with Producer(namesrv=self._namesrv, group="shop", send_timeout_ms=1_000) as producer:
                began_s = time.monotonic()
                for number in itertools.count():
                    wait_s = began_s + number / self._rate - time.monotonic()
                    if self._closes.wait(max(0.0, wait_s)):
                        return
                    self._order(producer, number)
        except Exception as error:  # noqa: BLE001  # close() raises it
            self.error = error

    def close(self) -> None:
        """End after the current order.  Raises the error that ended the thread before."""
        self._closes.set()
        self.join()
        if self.error is not None:
            raise self.error

    def _order(self, producer: Producer, number: int) -> None:
        order = {
            "number": number,
            "region": REGIONS[number % len(REGIONS)],
            "at_ms": time.time_ns() // 1_000_000,
        }
        message = Message(TOPIC, json.dumps(order).encode(), keys=str(number))
        while True:
            try:
                producer.send(message)
                break
            except ClientError:  # it may be stored nevertheless: then the order is stored twice
                self.repeated += 1
        self._board.sent(window_of(order["at_ms"]), order["region"])


def window_of(at_ms: int) -> int:
    """The first second of the window that contains *at_ms*."""
    return at_ms // 1_000 // WINDOW_S * WINDOW_S


def create_topic(namesrv: str) -> None:
    """Create TOPIC on both brokers: a first send would create it on one broker only."""
    command = [
        sys.executable,
        "-m",
        "rocketmq_emulator",
        "topic",
        "create",
        TOPIC,
        "--queues",
        "4",
    ]
    subprocess.run([*command, "-n", namesrv], check=True, stdout=subprocess.DEVNULL)


# Spark queries --------------------------------------------------------------------------


def orders(spark: SparkSession, namesrv: str, group: str) -> DataFrame:
    """The topic as a streaming table: one row per message."""
    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrv", namesrv)
        .option("topic", TOPIC)
        .option("group", group)
        .option("startingOffsets", "earliest")
        .load()
    )
    order = F.from_json(F.col("body").cast("string"), ORDER)
    place = ("broker", "queue_id", "offset")
    return messages.select(*place, order.alias("order")).select(
        *place, "order.*", F.timestamp_millis("order.at_ms").alias("at")
    )


def count(rows: DataFrame, board: Board, folder: Path) -> StreamingQuery:
    """Count distinct orders by window and region: an order that is stored twice counts once."""
    counts = (
        rows.withWatermark("at", LATE)
        .groupBy(F.window("at", f"{WINDOW_S} seconds").alias("window"), "region")
        .agg(F.size(F.collect_set("number")).alias("orders"))
        .select(F.unix_timestamp("window.start").alias("window"), "region", "orders")
    )

    def take(batch: DataFrame, number: int) -> None:
        board.counted(number, {(row.window, row.region): row.orders for row in batch.collect()})

    query = counts.writeStream.outputMode("update").foreachBatch(take)
    return query.option("checkpointLocation", str(folder / "counts-checkpoint")).start()


def keep(rows: DataFrame, folder: Path) -> StreamingQuery:
    """Write every message to Parquet files."""
    query = rows.writeStream.format("parquet").option("path", str(folder / "orders"))
    return query.option("checkpointLocation", str(folder / "orders-checkpoint")).start()


def kept(spark: SparkSession, folder: Path) -> dict[str, int]:
    """The table's numbers of messages, of distinct places, and of distinct orders."""
    place = F.struct("broker", "queue_id", "offset")
    found = spark.read.parquet(str(folder / "orders")).agg(
        F.count("*").alias("messages"),
        F.count_distinct(place).alias("places"),
        F.count_distinct("number").alias("orders"),
    )
    return found.first().asDict()


# The run --------------------------------------------------------------------------------


def play(
    cluster: ProcessCluster, board: Board, *, seconds: float, kill_s: float, away_s: float
) -> None:
    """Kill a broker while the shop sends, and restart it; times are since Spark's first counts."""
    board.wait_until_counting(COUNTING_S_MAX)
    for at_s, act in ((kill_s, "killed"), (kill_s + away_s, "back"), (seconds, "")):
        time.sleep(max(0.0, at_s - board.age_s()))
        if act:
            (cluster.kill if act == "killed" else cluster.restart)("broker-b")
            board.happened(f"broker-b {act}")


def wait_until_caught_up(board: Board, queries: list[StreamingQuery]) -> None:
    """Wait until Spark has counted all sent orders, or CAUGHT_UP_S_MAX; raise query errors."""
    until_s = time.monotonic() + CAUGHT_UP_S_MAX
    while time.monotonic() < until_s and not board.is_equal():
        for query in queries:
            if (error := query.exception()) is not None:
                raise error
        queries[0].awaitTermination(timeout=0.2)
    for query in queries:
        query.processAllAvailable()
        query.stop()


def report(board: Board, table: dict[str, int], shop: Shop) -> bool:
    """Print the sent and the counted orders; return whether they are equal."""
    sent, counted = board.totals()
    windows = len({window for window, _ in board.sent_counts})
    is_kept_once = table["messages"] == table["places"] and table["orders"] == sent
    print(f"sent      {sent:,} orders, all acknowledged; {shop.repeated} sends had to be repeated")
    words = "as the shop counted" if board.is_equal() else "NOT as the shop counted"
    print(f"counted   {counted:,} orders in {windows} windows of {WINDOW_S} s, {words}")
    words = "each place once" if is_kept_once else "NOT each place once"
    print(
        f"table     {table['messages']:,} messages, {table['orders']:,} different orders, {words}"
    )
    for at_s, what in board.events:
        print(f"{at_s:6.1f} s  {what}")
    return board.is_equal() and is_kept_once


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Counts orders with Spark, and kills a broker.")
    parser.add_argument("--seconds", type=float, default=60, help="length of the run")
    parser.add_argument("--rate", type=int, default=100, help="orders per second")
    parser.add_argument(
        "--kill", type=float, default=15, help="time of the kill of broker-b, in s"
    )
    parser.add_argument("--away", type=float, default=10, help="how long broker-b is down, in s")
    parser.add_argument("--port", type=int, default=0, help="port of the page; 0: any free port")
    parser.add_argument("--exit", action="store_true", help="exit at the end, without Ctrl-C")
    return parser.parse_args()


def main() -> int:
    chosen = arguments()
    with tempfile.TemporaryDirectory(prefix="live-orders-") as name:
        folder = Path(name)
        board = Board(WINDOW_S)
        page = Page(board, chosen.port)
        print(f"see {page.url}", flush=True)
        spark = spark_session("live orders")
        register(spark)
        with ProcessCluster(brokers=2, store=str(folder / "store")) as cluster:
            create_topic(cluster.namesrv)
            shop = Shop(cluster.namesrv, board, chosen.rate)
            queries = [
                count(orders(spark, cluster.namesrv, "counting"), board, folder),
                keep(orders(spark, cluster.namesrv, "keeping"), folder),
            ]
            shop.start()
            play(cluster, board, seconds=chosen.seconds, kill_s=chosen.kill, away_s=chosen.away)
            shop.close()
            wait_until_caught_up(board, queries)
            is_exact = report(board, kept(spark, folder), shop)
        board.end(is_exact=is_exact)
        if not chosen.exit:
            print("Ctrl-C ends it")
            page.wait()
        spark.stop()
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
