"""The decisions of a rebalance: queues to release, claim or drop; when a group is balanced."""

import pytest

from rocketmq_emulator.client.consumer.group.process_queue import ProcessQueue
from rocketmq_emulator.client.consumer.group.rebalance import (
    is_balanced,
    to_claim,
    to_forget,
    to_release,
)
from rocketmq_emulator.protocol.queues import MessageQueue


def queues(*numbers: int, topic: str = "T") -> list[MessageQueue]:
    return [MessageQueue(topic, "broker-a", number) for number in numbers]


def holding(*numbers: int, pulled_ms: int = 0) -> dict[MessageQueue, ProcessQueue]:
    return {queue: ProcessQueue(pulled_ms) for queue in queues(*numbers)}


def test_what_is_no_longer_wanted_is_released_and_what_is_new_is_claimed() -> None:
    held = holding(2, 1, 0)
    assert to_release(held, "T", queues(1, 3), now_ms=0) == [
        (queue, "not mine") for queue in queues(0, 2)
    ]
    assert to_claim(held, queues(3, 1)) == queues(3)


def test_other_topics_are_left_alone() -> None:
    held = holding(0)
    assert to_release(held, "U", queues(0, topic="U"), now_ms=0) == []


def test_client_invariant_41_a_queue_that_is_not_pulled_for_two_minutes_is_replaced() -> None:
    held = holding(0)
    assert to_release(held, "T", queues(0), now_ms=120_000) == []
    assert to_release(held, "T", queues(0), now_ms=120_001) == [(queues(0)[0], "pull expired")]


def test_queues_of_an_unsubscribed_topic_are_dropped() -> None:
    held = holding(0, 1)
    assert to_forget(held, {"U"}) == queues(0, 1)
    assert to_forget(held, {"T"}) == []


@pytest.mark.parametrize(
    ("dropped", "allocated", "balanced"), [(False, 2, True), (True, 2, False), (False, 3, False)]
)
def test_a_topic_is_balanced_when_exactly_the_allocated_queues_work(
    dropped: bool, allocated: int, balanced: bool
) -> None:
    held = holding(0, 1)
    held[queues(1)[0]].dropped = dropped
    assert is_balanced(held, "T", queues(*range(allocated))) is balanced
