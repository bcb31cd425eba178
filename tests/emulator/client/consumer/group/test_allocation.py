from collections.abc import Callable
from functools import cache
from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.client.consumer.group.allocation import (
    AVG,
    AVG_BY_CIRCLE,
    CannotAllocate,
    Strategy,
    by_machine_room,
    configured,
    consistent_hash,
    md5_hash,
    nearby,
)
from rocketmq_emulator.protocol.queues import MessageQueue, java_order
from tests.support.golden_data import cases


def a_room(name: str) -> str:
    """The machine room as in the recordings: the text before the first ``-`` or ``@``, or ""."""
    cuts = [at for at in (name.find("-"), name.find("@")) if at >= 0]
    return name[: min(cuts)] if cuts else ""


def room_of_broker(queue: MessageQueue) -> str:
    return a_room(queue.broker_name)


a_known_hash = cache(md5_hash)  # each member computes the same ring

STRATEGIES: dict[str, Callable[[dict], Strategy]] = {  # by their names in the recorded cases
    "AVG": lambda _: AVG,
    "AVG_BY_CIRCLE": lambda _: AVG_BY_CIRCLE,
    "CONFIG": lambda case: configured(queues_of(case["topic"], case.get("configured"))),
    "MACHINE_ROOM": lambda case: by_machine_room(case.get("idcs", ())),
    "MACHINE_ROOM_NEARBY-AVG": lambda _: nearby(AVG, room_of_broker, a_room),
    "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE": lambda _: nearby(AVG_BY_CIRCLE, room_of_broker, a_room),
    "CONSISTENT_HASH/1": lambda _: consistent_hash(1),
    "CONSISTENT_HASH/10": lambda _: consistent_hash(10, a_known_hash),
    "CONSISTENT_HASH/100": lambda _: consistent_hash(100, a_known_hash),
}


def queues_of(topic: str, pairs: list | None) -> list[MessageQueue]:
    return [MessageQueue(topic, broker, number) for broker, number in pairs or ()]


def some_queues(count: int, *brokers: str) -> list[MessageQueue]:
    return [MessageQueue("T", b, i) for b in brokers or ("broker-a",) for i in range(count)]


def shares(strategy: Strategy, queues: list[MessageQueue], members: list[str]) -> list[list[int]]:
    """The indexes of each member's queues."""
    return [
        [queues.index(queue) for queue in strategy.allocate(queues, members, me)] for me in members
    ]


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "CONFIG"])
def test_every_member_gets_the_recorded_queues(name) -> None:
    for case in cases("allocate.jsonl", "allocate"):
        wanted = case["out"][name]
        queues = queues_of(case["in"]["topic"], case["in"]["queues"])
        members = case["in"]["cids"]
        strategy = STRATEGIES[name](case["in"])
        if isinstance(wanted, dict):
            for me in members:
                with pytest.raises(CannotAllocate):
                    strategy.allocate(queues, members, me)
        else:
            assert shares(strategy, queues, members) == wanted, case["id"]


def test_odd_inputs_end_as_recorded() -> None:
    for case in cases("allocate.jsonl", "allocate_edge"):
        topic = case["in"]["topic"]
        queues = queues_of(topic, case["in"]["queues"])
        members, me = case["in"]["cids"] or [], case["in"]["current"] or ""
        for name, wanted in case["out"].items():
            strategy = STRATEGIES[name](case["in"])
            if isinstance(wanted, dict):
                with pytest.raises(CannotAllocate):
                    strategy.allocate(queues, members, me)
            else:  # a null configured list is an empty one here
                got = strategy.allocate(queues, members, me)
                assert got == queues_of(topic, wanted), (case["id"], name)


def test_a_configured_list_is_taken_as_it_is() -> None:
    for case in cases("allocate.jsonl", "allocate_config"):
        topic = case["in"]["topic"]
        mine = configured(queues_of(topic, case["in"]["configured"]))
        got = mine.allocate(
            queues_of(topic, case["in"]["queues"]), case["in"]["cids"], case["in"]["current"]
        )
        assert got == queues_of(topic, case["out"])


def test_who_is_in_no_room_is_named() -> None:
    strategy = nearby(AVG, room_of_broker, a_room)
    with pytest.raises(CannotAllocate, match=r"^the member nowhere is in no room$"):
        strategy.allocate(some_queues(1, "R1-a"), ["nowhere"], "nowhere")
    with pytest.raises(CannotAllocate, match=r"^the queue .*nowhere.* is in no room$"):
        strategy.allocate(some_queues(1, "nowhere"), ["R1-c"], "R1-c")


def test_without_virtual_nodes_no_member_gets_a_queue() -> None:
    assert shares(consistent_hash(0), some_queues(4), ["c1", "c2"]) == [[], []]


def test_half_a_character_has_a_hash_too() -> None:
    digest = md5(b"\xed\xa0\x80", usedforsecurity=False).digest()
    assert md5_hash("\ud800") == int.from_bytes(digest[:4], "big")


def test_rooms_without_members_come_in_the_order_of_java_s_strings() -> None:
    rooms = ["\uffff", "\U00010000"]  # in Java the second sorts first
    strategy = nearby(AVG, room_of_broker, a_room)
    queues = some_queues(1, *(f"{room}-a" for room in rooms))
    owned = strategy.allocate(queues, ["R1-c"], "R1-c")
    assert [a_room(queue.broker_name) for queue in owned] == rooms[::-1]


@pytest.mark.parametrize(
    ("broker", "room"),
    [("R1@a", True), ("R1@X", True), ("R1@a@", True), ("R1", False), ("@R1@a", False)],
)
def test_a_broker_is_in_the_room_before_its_only_at_sign(broker, room) -> None:
    queues = some_queues(1, broker)
    owned = by_machine_room(["R1"]).allocate(queues, ["c1"], "c1")
    assert owned == (queues if room else [])


def test_strategies_are_called_as_upstream_calls_them() -> None:
    (case,) = cases("allocate.jsonl", "allocate_name")
    named = {
        "AVG": AVG,
        "AVG_BY_CIRCLE": AVG_BY_CIRCLE,
        "CONFIG": configured([]),
        "MACHINE_ROOM": by_machine_room(()),
        "CONSISTENT_HASH": consistent_hash(),
        "NEARBY": nearby(AVG, room_of_broker, a_room),
    }
    assert {key: strategy.name for key, strategy in named.items()} == {
        key: case["out"][key] for key in named
    }
    with pytest.raises(ValueError, match="-1"):
        consistent_hash(-1)


def test_client_invariant_27_together_the_members_own_every_queue_once() -> None:
    members_of_rooms = ["R1-c1", "R1-c2", "R2-c1", "R4-c1"]
    queues = some_queues(4, "R1-a", "R2-a", "R3-a")
    for strategy in (AVG, AVG_BY_CIRCLE, consistent_hash(1), nearby(AVG, room_of_broker, a_room)):
        owned = [index for share in shares(strategy, queues, members_of_rooms) for index in share]
        assert sorted(owned) == list(range(len(queues)))


@given(count=st.integers(1, 24), members=st.integers(1, 24))
def test_any_number_of_queues_is_shared_without_gap_or_overlap(count: int, members: int) -> None:
    queues = some_queues(count, "room@a")
    ids = [f"c{i:02}" for i in range(members)]
    for strategy in (AVG, AVG_BY_CIRCLE, by_machine_room(["room"])):
        owned = [index for share in shares(strategy, queues, ids) for index in share]
        assert sorted(owned) == list(range(count))


def test_client_invariant_28_average_shares_are_runs_that_differ_by_one() -> None:
    assert shares(AVG, some_queues(4), ["c0", "c1"]) == [[0, 1], [2, 3]]
    assert shares(AVG, some_queues(10), ["c0", "c1", "c2", "c3"]) == [
        [0, 1, 2],
        [3, 4, 5],
        [6, 7],
        [8, 9],
    ]
    few = shares(AVG, some_queues(4), ["c0", "c1", "c2", "c3", "c4", "c5"])
    assert few == [[0], [1], [2], [3], [], []]


def test_client_invariant_29_circle_and_machine_room_allocate_as_tabled() -> None:
    assert shares(AVG_BY_CIRCLE, some_queues(4), ["c0", "c1"]) == [[0, 2], [1, 3]]
    rooms = by_machine_room(["r"])
    assert shares(rooms, some_queues(8, "r@a"), ["c0", "c1", "c2"]) == [
        [0, 1, 6],
        [2, 3, 7],
        [4, 5],
    ]


def test_a_room_without_members_is_shared_by_all() -> None:
    queues = some_queues(4, "R1-a", "R2-a", "R3-a")
    strategy = nearby(AVG, room_of_broker, a_room)
    assert shares(strategy, queues, ["R1-c1", "R1-c2", "R2-c1", "R4-c1"]) == [
        [0, 1, 8],
        [2, 3, 9],
        [4, 5, 6, 7, 10],
        [11],
    ]


def test_client_invariant_30_a_leaving_member_moves_only_its_own_queues() -> None:
    queues = [MessageQueue("TopicA", b, i) for b in ("broker-a", "broker-b") for i in range(4)]
    ids = ["10.0.0.1@1", "10.0.0.2@1", "10.0.0.3@1"]
    a0, a1, a2, a3, b0, b1, b2, b3 = range(8)
    assert shares(consistent_hash(), queues, ids) == [[a2, b0], [a1, a3, b3], [a0, b1, b2]]
    assert shares(consistent_hash(), queues, ids[:2]) == [[a0, a2, b0, b1, b2], [a1, a3, b3]]
    assert md5_hash("10.0.0.1@1-0") == 2998294157


def test_client_invariant_31_names_sort_as_texts_and_queue_ids_as_numbers() -> None:
    queues = [
        MessageQueue("T", "broker-2", 0),
        MessageQueue("T", "broker-10", 10),
        MessageQueue("T", "broker-10", 2),
        MessageQueue("T", "\ue000", 0),  # above the surrogates, so after the emoji in Java
        MessageQueue("T", "😀", 0),
    ]
    assert [(q.broker_name, q.queue_id) for q in sorted(queues)] == [
        ("broker-10", 2),
        ("broker-10", 10),
        ("broker-2", 0),
        ("😀", 0),
        ("\ue000", 0),
    ]
    ids = ["9.0.0.1@1", "10.0.0.2@1", "10.0.0.10@1"]
    assert sorted(ids, key=java_order) == ["10.0.0.10@1", "10.0.0.2@1", "9.0.0.1@1"]


def test_client_invariant_33_the_queues_of_a_duplicate_id_have_no_owner() -> None:
    queues = some_queues(6)
    members = ["c0", "c0", "c1"]
    assert AVG.allocate(queues, members, "c0") == queues[:2]
    assert AVG.allocate(queues, members, "c1") == queues[4:]
    assert AVG_BY_CIRCLE.allocate(queues, members, "c0") == [queues[0], queues[3]]
    assert AVG_BY_CIRCLE.allocate(queues, members, "c1") == [queues[2], queues[5]]
