"""The source as Spark's users see it: Spark finds it by its name, and its errors are readable."""

from __future__ import annotations

import sys
from datetime import timedelta

import pytest
from pyspark.errors import PySparkException

from rocketmq_emulator.pipeline.source.data_source import register
from rocketmq_emulator.testing.rocketmq import RocketMQ
from tests.support.pipeline.source_topics import numbered, send


@pytest.fixture(scope="module")
def cluster():
    with RocketMQ(topics={"orders": 2}, brokers=2) as cluster:
        send(cluster.namesrv, *numbered("orders", 40, tags="TagA"))
        yield cluster


def test_the_format_is_found_without_a_registration(spark, cluster) -> None:
    options = {"namesrv": cluster.namesrv, "topic": "orders"}
    rows = spark.read.format("rocketmq").options(**options).load().collect()
    assert sorted(bytes(row.body) for row in rows) == [b"%06d" % i for i in range(40)]
    (first,) = [row for row in rows if row.keys == "k0"]
    assert first.tags == "TagA"
    assert first.properties["UNIQ_KEY"] == first.msg_id
    apart = first.store_timestamp - first.born_timestamp  # by the clocks of two processes
    assert abs(apart) < timedelta(seconds=5)
    assert first.reconsume_times == 0


def test_a_schema_of_some_columns_reads_only_those(spark, cluster) -> None:
    options = {"namesrv": cluster.namesrv, "topic": "orders", "minPartitions": 9}
    frame = spark.read.format("rocketmq").schema("offset long, topic string").options(**options)
    assert frame.load().groupBy("topic").sum("offset").collect() == [
        ("orders", 4 * sum(range(10)))
    ]


def test_what_is_written_is_streamed_on_and_read_again(spark, cluster, tmp_path) -> None:
    address = {"namesrv": cluster.namesrv}
    cups = spark.range(500).selectExpr("concat('cup ', id) AS body", "'tea' AS tags")
    cups.write.format("rocketmq").options(**address, topic="cups").mode("append").save()
    stream = spark.readStream.format("rocketmq").options(**address, topic="cups", start="earliest")
    query = (
        stream.load()
        .select("body", "tags", "properties")
        .writeStream.format("rocketmq")
        .options(**address, topic="copies", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    copies = spark.read.format("rocketmq").options(**address, topic="copies", tags="tea").load()
    texts = [row.text for row in copies.selectExpr("string(body) AS text").collect()]
    assert sorted(texts) == sorted(f"cup {number}" for number in range(500))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"topik": "orders"},
            "BadOption: the rocketmq source has no option 'topik': did you mean",
        ),
        ({"topic": "order"}, "TopicUnknown: .*'order' at the NameServer: did you mean orders?"),
        (
            {"topic": "orders", "namesrv": "127.0.0.1:9"},
            "ServerUnavailable: no NameServer answers: .*:9",
        ),
    ],
)
def test_an_error_reaches_the_user_as_its_sentence(spark, cluster, options, says) -> None:
    read = spark.read.format("rocketmq").options(**{"namesrv": cluster.namesrv, **options})
    with pytest.raises(PySparkException, match=says.replace("?", r"\?")):
        read.load().collect()


def test_a_registered_format_runs_in_the_interpreter_that_registers_it(spark, monkeypatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")  # as without PYSPARK_PYTHON
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/other/python")
    register(spark)
    assert spark.sparkContext.pythonExec == "python3", "the environment names another one"
    monkeypatch.delenv("PYSPARK_PYTHON")
    register(spark)
    assert spark.sparkContext.pythonExec == sys.executable
