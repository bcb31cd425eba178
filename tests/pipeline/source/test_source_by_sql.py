"""Reads with the option ``sql``: what matches, exact offsets, brokers that cannot filter."""

from __future__ import annotations

import json

import pytest

from rocketmq_emulator import Message
from rocketmq_emulator.pipeline.source.errors import ServerRefused
from rocketmq_emulator.testing.rocketmq import RocketMQ
from tests.support.pipeline.source_topics import (
    a_reader,
    a_source,
    bodies,
    read,
    rows_of,
    send,
    shape_of,
)

COUNT = 300
THIRDS = "third = '1' AND number BETWEEN 30 AND 250"
WANTED = [b"%06d" % n for n in range(30, 251) if n % 3 == 1]


@pytest.fixture(scope="module")
def cluster():
    with RocketMQ(
        topics={"numbers": 2}, brokers=1, settings={"enablePropertyFilter": True}
    ) as cluster:
        properties = ({"number": str(n), "third": str(n % 3)} for n in range(COUNT))
        rows = (Message("numbers", b"%06d" % n, properties=p) for n, p in enumerate(properties))
        send(cluster.namesrv, *rows)
        yield cluster


def test_rows_are_those_that_the_expression_matches(cluster) -> None:
    assert bodies(read(cluster.namesrv, "numbers", sql=THIRDS)) == WANTED
    assert read(cluster.namesrv, "numbers", sql="number > 1000") == []


def test_offsets_of_a_range_are_exact(cluster) -> None:
    found, places = [], set()
    for part in range(4):
        cuts = [(n * COUNT // 2) // 4 for n in (part, part + 1)]
        start, end = (json.dumps({"numbers": {"broker-a": {"0": n, "1": n}}}) for n in cuts)
        rows = read(cluster.namesrv, "numbers", sql=THIRDS, start=start, end=end)
        assert all(cuts[0] <= row["offset"] < cuts[1] for row in rows)
        found += bodies(rows)
        places |= {(row["queue_id"], row["offset"]) for row in rows}
    assert sorted(found) == WANTED
    assert len(places) == len(WANTED), "no row comes in two ranges"


def test_a_stream_with_a_group_reads_by_its_expression(cluster) -> None:
    reader = a_stream(cluster, sql=THIRDS, group="spark", startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert bodies(rows_of(reader, reader.partitions(start, end))) == WANTED
    reader.commit(end)
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    reader.stop()


def a_stream(cluster, **options):
    return a_source(cluster.namesrv, "numbers", **options).streamReader(shape_of(""))


def test_a_broker_that_does_not_filter_ends_the_read_and_names_the_setting() -> None:
    with RocketMQ(topics={"numbers": 1}, brokers=1) as cluster:
        send(cluster.namesrv, Message("numbers", b"1", properties={"number": "1"}))
        reader = a_reader(cluster.namesrv, "numbers", sql="number > 0")
        with pytest.raises(ServerRefused, match="enablePropertyFilter=true"):
            rows_of(reader)


def test_a_broker_whose_release_cannot_read_the_expression_refuses_it() -> None:
    with RocketMQ(
        topics={"numbers": 1}, brokers=1, release="4.9.7", settings={"enablePropertyFilter": True}
    ) as cluster:
        send(cluster.namesrv, Message("numbers", b"1", properties={"name": "x"}))
        reader = a_reader(cluster.namesrv, "numbers", sql="name NOT CONTAINS 'a'")
        with pytest.raises(ServerRefused, match="CHECK_CLIENT_CONFIG with code 23"):
            rows_of(reader)
