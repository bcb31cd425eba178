"""The question of skew: what one set of client ids comes to, and what the table says of it."""

from __future__ import annotations

import random

import pytest

from scenarios.allocation_question import Allocation, allocation, owners_of
from scenarios.client_ids import FORMATS, ClientIds
from scenarios.strategies import strategy_named
from scenarios.strategy_judge import shares

EVEN = ("averagely", "by_circle")
TABLE = {  # queues, members: least, most, and of each of EVEN what moves when the last leaves
    (8, 3): (2, 3, 3, 4, 2),
    (24, 5): (4, 5, 10, 16, 4),
    (24, 7): (3, 4, 6, 18, 3),
    (64, 10): (6, 7, 24, 55, 6),
}


@pytest.mark.parametrize("strategy", EVEN)
@pytest.mark.parametrize(("queues", "members"), TABLE)
def test_even_strategies_come_to_the_table_whatever_the_ids_are(strategy, queues, members) -> None:
    least, most, *moves, necessary = TABLE[queues, members]
    for seed, ids in enumerate(FORMATS):
        asked = Allocation(strategy=strategy, queues=queues, members=members, ids=ids)
        found = allocation(asked, seed)
        assert (found["queues_min"], found["queues_max"]) == (least, most)
        assert found["moves_leave"] == moves[EVEN.index(strategy)]
        assert found["necessary_leave"] == necessary


def test_more_members_than_queues_leave_some_without_any() -> None:
    for strategy in EVEN:
        found = allocation(Allocation(strategy=strategy, queues=8, members=12), 1)
        assert (found["idle_members"], found["queues_max"]) == (4, 1)
        assert "max_to_min" not in found


@pytest.mark.parametrize("topics", [1, 10, 50, 100])
def test_the_remainder_of_every_topic_falls_to_the_first_member(topics) -> None:
    found = allocation(Allocation(topics=topics, queues=4, members=3), 1)
    assert (found["first_queues"], found["queues_min"]) == (2 * topics, topics)


def test_a_ring_moves_only_the_queues_of_who_leaves_and_of_who_joins() -> None:
    for seed in range(50):
        found = allocation(Allocation(strategy="consistent_hash", queues=24, members=5), seed)
        assert found["moves_leave"] == found["necessary_leave"]
        assert found["moves_join"] == found["necessary_join"]


def test_the_ring_that_is_built_once_agrees_with_what_each_member_computes() -> None:
    asked = Allocation(strategy="consistent_hash", brokers=2, queues=6, members=5)
    ids = ClientIds(FORMATS["container"], random.Random(1))
    members = sorted(ids.start(at) for at in range(5))
    at_once = owners_of(asked, members)
    each = shares(strategy_named("consistent_hash").allocate, sorted(at_once), members)
    assert at_once == {queue: me for me, share in each.items() for queue in share}


def test_more_virtual_nodes_make_shares_more_even() -> None:
    def sigma(nodes: int) -> float:
        asked = Allocation(strategy="consistent_hash", queues=64, members=10, virtual_nodes=nodes)
        return sum(allocation(asked, seed)["queues_sigma"] for seed in range(20))

    assert sigma(1) > sigma(10) > sigma(100)


def test_a_read_only_broker_leaves_members_of_its_block_idle_and_none_by_circle() -> None:
    idle = [
        allocation(Allocation(strategy=name, brokers=2, queues=4, members=3), 1) for name in EVEN
    ]
    assert [found["read_only_idle_members"] for found in idle] == [1, 0]


def test_a_restart_with_kept_addresses_leaves_blocks_where_they_were() -> None:
    asked = Allocation(queues=8, members=2, ids="ip_pid_nanos", restart=True)
    assert allocation(asked, 1)["moves_restart"] == 16  # each takes over the other's, twice


@pytest.mark.parametrize("name", FORMATS)
def test_ids_differ_and_a_restart_gives_another_one(name) -> None:
    ids = ClientIds(FORMATS[name], random.Random(7))
    given = [ids.start(at % 20) for at in range(200)]
    assert len(set(given)) == 200
    assert all(one.startswith("10.") and one.count("@") == 1 for one in given)
    is_kept = given[0].partition("@")[0] == given[20].partition("@")[0]
    assert is_kept == FORMATS[name].keeps_address


def test_neighbours_have_neighbouring_addresses() -> None:
    ids = ClientIds(FORMATS["ip_pid"], random.Random(1))
    hosts = [int(ids.start(at).partition("@")[0].rpartition(".")[2]) for at in range(3)]
    assert [host - hosts[0] for host in hosts] == [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"members": 0}, "members is 1 or more"),
        ({"ids": "ip_pid_nano"}, "did you mean ip_pid_nanos"),
        ({"queues": 100_001}, "more than 100,000"),
        ({"virtual_nodes": -1}, "0 to 10,000"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(given, says) -> None:
    with pytest.raises(ValueError, match=says):
        Allocation(**given)
