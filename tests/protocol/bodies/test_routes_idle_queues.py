"""Queues that get no new messages, computed from the routes of known clusters."""

from __future__ import annotations

import pytest

from rocketmq_emulator.protocol.bodies.routes import (
    QueueData,
    is_read_only_and_drained,
    no_load_ratio,
    starved,
)
from rocketmq_emulator.protocol.queues import MessageQueue

READ_ONLY, BOTH, WRITE_ONLY, NONE = 4, 6, 2, 0


def a_route(*rows) -> list[QueueData]:
    return [
        QueueData(broker_name=f"broker-{n}", read_queue_nums=r, write_queue_nums=w, perm=perm)
        for n, (r, w, perm) in enumerate(rows)
    ]


@pytest.mark.parametrize(
    ("perm", "lag", "idle"),
    [(READ_ONLY, 0, True), (READ_ONLY, 1, False), (BOTH, 0, False), (WRITE_ONLY, 0, False)],
)
def test_a_queue_is_idle_when_it_is_read_only_and_has_been_read(perm, lag, idle) -> None:
    assert is_read_only_and_drained(perm, lag) is idle


@pytest.mark.parametrize(
    ("rows", "ratio"),
    [
        ([(4, 4, BOTH)] * 3 + [(4, 4, READ_ONLY)], 0.25),  # the write count stays: perm decides
        ([(4, 4, BOTH), (4, 4, READ_ONLY)], 0.5),
        ([(8, 8, BOTH)] * 2 + [(8, 8, READ_ONLY)], 1 / 3),
        ([(4, 4, BOTH)] * 2, 0.0),
        ([(8, 4, BOTH)], 0.5),  # a topic that shrinks
        ([(4, 8, BOTH)], 0.0),  # four are written and never read: no member idles for it
        ([(4, 4, READ_ONLY)], 1.0),
        ([(4, 4, NONE), (4, 4, BOTH)], 0.0),
        ([], 0.0),
    ],
)
def test_the_no_load_ratio_is_what_cannot_be_written_of_what_can_be_read(rows, ratio) -> None:
    assert no_load_ratio(a_route(*rows)) == pytest.approx(ratio)


def test_queues_starve_that_are_in_no_share() -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(3)]
    assert starved(queues, {"a": queues[2:], "b": queues[:1]}) == [queues[1]]
