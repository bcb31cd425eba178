"""A slave is read while its master is away; messages that it lacks do not count as lost.

The emulator has no slaves.  So a test sends the same messages to the broker of a second cluster,
and registers this broker as a slave; ``make parity`` has real slaves.
"""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rocketmq_emulator.pipeline.source.columns import ROW_SHAPE
from rocketmq_emulator.pipeline.source.connection import BlockingConnection
from rocketmq_emulator.pipeline.source.errors import ServerUnavailable
from rocketmq_emulator.pipeline.source.options import SinkOptions
from rocketmq_emulator.pipeline.source.sending import TaskSender
from rocketmq_emulator.protocol.bodies.extensions import ReplyRule
from rocketmq_emulator.protocol.bodies.registration import (
    RegisterBrokerBody,
    encode_register_broker,
)
from rocketmq_emulator.protocol.catalog import REGISTER_BROKER
from rocketmq_emulator.protocol.codes import RequestCode, ResponseCode
from rocketmq_emulator.protocol.requests.nameserver import RegisterBrokerRequest
from rocketmq_emulator.settings.releases import Release
from rocketmq_emulator.testing.rocketmq import RocketMQ
from tests.support.pipeline.source_topics import (
    a_reader,
    a_source,
    bodies,
    numbered,
    read,
    rows_of,
    send,
)

SLAVE_ID = 1


@pytest.fixture
def master():
    with RocketMQ(topics={"orders": 1}, brokers=1) as cluster:
        yield cluster


@pytest.fixture
def slave(master):
    """A cluster whose broker is registered as a slave for as long as the connection is open."""
    with (
        RocketMQ(topics={"orders": 1}, brokers=1) as cluster,
        BlockingConnection(master.namesrv, 2_000) as connection,
    ):
        request = RegisterBrokerRequest(
            broker_name="broker-a",
            broker_addr=cluster.addresses["broker-a"],
            cluster_name="DefaultCluster",
            ha_server_addr="127.0.0.1:1",
            broker_id=SLAVE_ID,
        )
        body = encode_register_broker(
            RegisterBrokerBody(), Release.parse("4.9.7"), compressed=False
        )
        connection.call(REGISTER_BROKER, request, body)
        yield cluster


def both_have(master, slave, count, missing=0) -> None:
    send(master.namesrv, *numbered("orders", count))
    send(slave.namesrv, *numbered("orders", count - missing))


def test_a_topic_is_read_from_the_slave_of_a_broker_that_died(master, slave) -> None:
    both_have(master, slave, 50)
    reader = a_reader(master.namesrv, "orders", brokerTimeoutMs=5_000)
    planned = reader.partitions()
    master.kill("broker-a")
    assert bodies(rows_of(reader, planned)) == [b"%06d" % i for i in range(50)]
    assert bodies(read(master.namesrv, "orders")) == [b"%06d" % i for i in range(50)]


def test_a_master_that_stands_still_is_passed_over_for_its_slave(master, slave) -> None:
    both_have(master, slave, 10)
    master.pause("broker-a")
    rows = read(master.namesrv, "orders", requestTimeoutMs=200, brokerTimeoutMs=5_000)
    assert len(rows) == 10
    master.resume("broker-a")


def test_what_a_slave_has_not_got_is_waited_for_and_not_lost(master, slave) -> None:
    both_have(master, slave, 50, missing=20)
    reader = a_reader(master.namesrv, "orders", brokerTimeoutMs=300)
    planned = reader.partitions()
    master.kill("broker-a")
    with pytest.raises(
        ServerUnavailable,
        match=r"a slave: it has the offsets 0 to 30 .* not 30; the read waits for its master",
    ):
        rows_of(reader, planned)


def test_a_slave_that_refuses_is_no_reason_to_give_up(master, slave) -> None:
    both_have(master, slave, 10)
    reader = a_reader(master.namesrv, "orders", brokerTimeoutMs=300)
    planned = reader.partitions()
    master.kill("broker-a")
    code, error = RequestCode.PULL_MESSAGE, ResponseCode.TOPIC_NOT_EXIST
    slave.set_reply_rule("broker-a", ReplyRule(code=code, error_code=error, count=1_000))
    with pytest.raises(
        ServerUnavailable, match=r"a slave: it does not give .*; the read waits for its master"
    ):
        rows_of(reader, planned)


def test_a_stream_goes_on_with_a_slave_and_never_back(master, slave, caplog) -> None:
    stream = a_source(master.namesrv, "orders", startingOffsets="earliest").streamReader(ROW_SHAPE)
    at = stream.initialOffset()
    both_have(master, slave, 50, missing=20)
    at = stream.latestOffset(at, ReadAllAvailable())
    master.kill("broker-a")
    assert stream.latestOffset(at, ReadAllAvailable()) == at, "the slave has less: wait"
    send(slave.namesrv, *numbered("orders", 25, start=30))
    further = stream.latestOffset(at, ReadAllAvailable())
    assert bodies(rows_of(stream, stream.partitions(at, further))) == [
        b"%06d" % i for i in range(50, 55)
    ]
    assert further["lost"] == 0
    said = [r.getMessage() for r in caplog.records if r.name == "rocketmq_emulator.spark"]
    assert said == [
        "the master of broker-a is away: reads its slave, which may have fewer messages"
    ]
    stream.stop()


def test_nothing_is_written_to_a_slave(master, slave) -> None:
    master.kill("broker-a")
    sender = TaskSender(SinkOptions(namesrv=(master.namesrv,), topic="orders"), 0)
    routed = sender._name_servers.queues(["orders"], to_write=True)
    assert (routed.addresses, routed.slaves) == ({}, {})
    sender.close()
