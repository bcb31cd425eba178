"""Starts that must fail: one line on stderr, an exit code, and no file changed."""

from __future__ import annotations

import pytest

from rocketmq_emulator.settings.config import BrokerConfig
from tests.durability.killed_cluster import BROKER, a_cluster, failed_start, questions_to, store_of

ANY_PORT = "127.0.0.1:0"


async def test_a_store_has_one_broker_and_the_second_names_its_process(tmp_path) -> None:
    with a_cluster(tmp_path) as cluster:
        async with questions_to(cluster) as ask:
            await ask.stored("orders", 0, b"before")
            code, lines = failed_start(
                BrokerConfig(listen_address=ANY_PORT, store=str(store_of(tmp_path)))
            )
            assert code == 1
            (line,) = lines
            assert f"in use by process {cluster.pids[BROKER]}" in line
            assert await ask.stored("orders", 0, b"after") == 1
            assert [m.body for m in await ask.messages("orders", 0)] == [b"before", b"after"]


async def test_a_store_is_free_again_as_soon_as_its_broker_was_killed(tmp_path) -> None:
    with a_cluster(tmp_path) as cluster:
        cluster.kill(BROKER)
        cluster.restart(BROKER)
        async with questions_to(cluster) as ask:
            assert await ask.stored("orders", 0, b"hello") == 0


@pytest.mark.parametrize("store", ["below a file", "where nothing can be made"])
def test_a_store_that_cannot_be_written_is_named(tmp_path, store) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"mine")
    folder = {"below a file": f"{file}/store", "where nothing can be made": "/proc/store"}[store]
    code, lines = failed_start(BrokerConfig(listen_address=ANY_PORT, store=folder))
    assert code == 1
    (line,) = lines
    assert folder in line
    assert file.read_bytes() == b"mine"


def test_a_port_in_use_is_named_and_the_store_is_given_back(tmp_path) -> None:
    with a_cluster(tmp_path) as cluster:
        address = cluster.brokers[BROKER]
        other = tmp_path / "other"
        for _ in range(2):
            code, lines = failed_start(BrokerConfig(listen_address=address, store=str(other)))
            assert code == 1
            (line,) = lines
            assert address in line
