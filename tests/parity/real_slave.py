"""A slave of RocketMQ in Java beside a cluster of either kind: one process, with a small heap."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.clusters import Cluster
from benchmarks.real_cluster import Server, fetched_jars, free_ports, launched
from benchmarks.stream import Stream
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.requests.admin import CreateTopicRequest

FILE_BYTES = 8 * 1024 * 1024  # of the log of both: a slave's must be of its master's size


@contextlib.contextmanager
def real_slave(
    cluster: Cluster, release: str, home: Path, settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The address of a slave of ``broker-a`` that is starting; it may not listen yet.

    Its files are in *home*; *settings* are RocketMQ's names, and override.
    """
    port = free_ports(4) + 2
    given = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": 1,
        "brokerRole": "SLAVE",
        "listenPort": port,
        "haListenPort": port + 1,
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "namesrvAddr": cluster.namesrv,
        "storePathRootDir": home / "store",
        "storePathCommitLog": home / "store" / "commitlog",
        "mappedFileSizeCommitLog": FILE_BYTES,
        **(settings or {}),
    }
    server = Server("broker-a-slave", "broker", port, "512m", given)
    process = launched(server, fetched_jars(release), home)
    try:
        yield server.address
    finally:
        process.kill()
        process.wait()


def create_topic(address: str, topic: str, attributes: str | None = None) -> None:
    """Create *topic* with one queue at the broker at *address*, as a tool does."""
    request = CreateTopicRequest(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        attributes=attributes,
    )
    with Stream(address) as stream:
        stream.ask(catalog.UPDATE_AND_CREATE_TOPIC, request)
