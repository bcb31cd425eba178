"""The question of skew: the shares that one set of client ids gets, compared with a table."""

from __future__ import annotations

import random

import pytest

from rocketmq_emulator.scenarios.catalog.allocation_question import (
    FORMATS,
    Allocation,
    ClientIds,
    allocation,
    owners_of,
)
from rocketmq_emulator.scenarios.catalog.strategy_judge import shares
from rocketmq_emulator.scenarios.plan.strategies import strategy_named

EVEN = ("averagely", "by_circle")
# queues, members: the smallest share, the largest; the queues that move when the last member
# leaves, for each strategy of EVEN; the moves that are necessary
TABLE = {
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
    assert allocation(asked, 1)["moves_restart"] == 16  # each takes over the other's queues, twice


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


def idle_by_broker(strategy: str, brokers: int, queues: int, members: int) -> list[float]:
    return [
        allocation(
            Allocation(
                strategy=strategy,
                brokers=brokers,
                queues=queues,
                members=members,
                read_only=f"broker-{at}",
            ),
            1,
        )["read_only_idle_members"]
        for at in range(brokers)
    ]


def test_who_idles_depends_on_which_broker_is_read_only() -> None:
    assert idle_by_broker("averagely", 3, 4, 8) == [2, 2, 4]
    assert idle_by_broker("by_circle", 3, 4, 8) == [0, 4, 0]


def test_places_are_those_of_the_sorted_brokers() -> None:
    asked = {"strategy": "averagely", "brokers": 3, "queues": 4, "members": 8}
    found = [
        allocation(Allocation(**asked, read_only=place), 1)["read_only_idle_members"]
        for place in ("first", "middle", "last")
    ]
    assert found == idle_by_broker(**asked)


@pytest.mark.parametrize("strategy", [*EVEN, "consistent_hash"])
def test_least_mean_and_most_are_over_every_broker(strategy) -> None:
    asked = Allocation(strategy=strategy, brokers=3, queues=4, members=8)
    found, by_broker = allocation(asked, 1), idle_by_broker(strategy, 3, 4, 8)
    assert found["read_only_least_share"] == min(by_broker) / 8
    assert found["read_only_mean_share"] == pytest.approx(sum(by_broker) / 3 / 8)
    assert found["read_only_most_share"] == max(by_broker) / 8


SHAPES = [(b, q, m) for b in (2, 3, 4, 5) for q in (1, 3, 4, 8) for m in range(2, 2 * b * q + 1)]


def test_by_circle_idles_nobody_as_long_as_everybody_has_two_queues() -> None:
    for brokers, queues, members in SHAPES:
        asked = Allocation(strategy="by_circle", brokers=brokers, queues=queues, members=members)
        everywhere = brokers * queues
        alone = min(max(0, 2 * members - everywhere), everywhere) if members > queues else 0
        mean = allocation(asked, 1)["read_only_mean_share"]
        assert mean == pytest.approx(alone / (brokers * members)), asked


def test_averagely_idles_one_member_in_as_many_as_there_are_brokers_but_for_the_seams() -> None:
    for brokers, queues, members in SHAPES:
        if members < brokers:
            continue
        asked = Allocation(brokers=brokers, queues=queues, members=members)
        at_work = min(members, brokers * queues)
        mean = allocation(asked, 1)["read_only_mean_share"] * members * brokers
        assert at_work - (brokers - 1) - 1e-9 <= mean <= at_work + 1e-9, asked


def test_over_all_brokers_by_circle_idles_no_more_members_than_averagely() -> None:
    for brokers, queues, members in SHAPES:
        shape = {"brokers": brokers, "queues": queues, "members": members}
        blocks, circle = (
            allocation(Allocation(strategy=name, **shape), 1)["read_only_mean_share"]
            for name in EVEN
        )
        assert circle <= blocks + 1e-9, shape


def test_the_ends_of_a_group_move_twice_the_queues_of_its_middle_with_averagely() -> None:
    def moved(leaver: str) -> float:
        return allocation(Allocation(queues=220, members=11, leaver=leaver), 1)["moves_leave"]

    first, middle, last = map(moved, ("first", "middle", "last"))
    assert first == last == 110
    assert middle == 60


def test_any_leaver_is_each_member_in_some_seed_and_ids_stay_those_of_the_seed() -> None:
    counts = {"averagely": set[float](), "by_circle": set[float]()}
    for seed in range(40):
        for strategy, found in counts.items():
            asked = Allocation(strategy=strategy, queues=24, members=5, leaver="any")
            found.add(allocation(asked, seed)["moves_leave"])
    places = {
        strategy: {
            allocation(Allocation(strategy=strategy, queues=24, members=5, leaver=at), 1)[
                "moves_leave"
            ]
            for at in ("first", "middle", "last")
        }
        for strategy in counts
    }
    assert all(places[strategy] <= counts[strategy] for strategy in counts)


def test_the_name_of_a_topic_matters_to_a_ring_and_to_nothing_else() -> None:
    def sigma(strategy: str, topic: str) -> float:
        asked = Allocation(strategy=strategy, queues=24, members=5, topic=topic)
        return sum(allocation(asked, seed)["queues_sigma"] for seed in range(100)) / 100

    assert sigma("averagely", "orders") == sigma("averagely", "any") == sigma("averagely", "stock")
    names = [sigma("consistent_hash", name) for name in ("orders", "stock", "users", "any")]
    assert max(names) - min(names) > 0.1


@pytest.mark.parametrize("topic", ["orders", "any"])
def test_a_surge_moves_a_ring_less_and_the_group_ends_as_large(topic) -> None:
    asked = {"strategy": "consistent_hash", "queues": 60, "members": 5, "restart": True}

    def moved(*, surge: bool) -> float:
        rows = [allocation(Allocation(**asked, topic=topic, surge=surge), s) for s in range(50)]
        return sum(row["moves_restart_per_queue"] for row in rows) / len(rows)

    assert moved(surge=False) == pytest.approx(2, abs=0.1)
    assert moved(surge=True) == pytest.approx(2 * 5 / 6, abs=0.1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"members": 0}, "members is 1 or more"),
        ({"ids": "ip_pid_nano"}, "did you mean ip_pid_nanos"),
        ({"queues": 100_001}, "more than 100,000"),
        ({"virtual_nodes": -1}, "0 to 10,000"),
        ({"leaver": "lst"}, "leaver is one of first, middle, last, any.*did you mean last"),
        ({"brokers": 2, "read_only": "broker-2"}, "read_only is one of .*, broker-1, not"),
        ({"brokers": 2, "topic": "any", "read_only": "broker-1"}, "read_only is one of first"),
        ({"topic": ""}, "topic is a name"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(given, says) -> None:
    with pytest.raises(ValueError, match=says):
        Allocation(**given)
