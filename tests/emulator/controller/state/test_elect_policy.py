"""Which of several replicas becomes the master."""

from __future__ import annotations

import pytest

from tests.support.controller.controllers import a_set

GIB = 1 << 30


@pytest.mark.parametrize(
    ("second", "third", "winner"),
    [
        ({"epoch": 2, "maxOffset": 1}, {"epoch": 1, "maxOffset": 900}, 2),
        ({"epoch": 1, "maxOffset": 200}, {"epoch": 1, "maxOffset": 300}, 3),
        ({"electionPriority": 9}, {"electionPriority": 3}, 3),
        ({}, {}, 2),
        ({"maxOffset": 100}, {"maxOffset": 100 + 3 * GIB}, 2),  # the difference is an int
        ({"maxOffset": 100}, {"maxOffset": 100 + GIB}, 3),
    ],
    ids=["epoch", "offset", "priority", "alike", "3 GiB", "1 GiB"],
)
def test_the_newest_epoch_wins_then_the_longest_log_then_the_priority(
    second, third, winner
) -> None:
    bench = a_set(1, 2, 3, in_sync=(1, 2, 3))
    bench.heartbeat(2, **second)
    bench.heartbeat(3, **third)
    bench.close(1)
    assert bench.replica_info()[0] == winner


def test_the_end_of_a_log_only_moves_up() -> None:
    bench = a_set(1, 2, 3, in_sync=(1, 2, 3))
    bench.heartbeat(2, maxOffset=900)
    bench.heartbeat(2, maxOffset=100)  # it was truncated
    bench.heartbeat(3, maxOffset=500)
    bench.close(1)
    assert bench.replica_info()[0] == 2


def test_a_heartbeat_without_a_timeout_lasts_10_seconds() -> None:
    bench = a_set(1, 2)
    bench.heartbeat(1, heartbeatTimeoutMills=60_000)
    bench.heartbeat(2, heartbeatTimeoutMills=None)
    bench.now_ms = 10_001
    assert bench.alter([1, 2]).code == 2006
    bench.now_ms = 10_000
    assert bench.alter([1, 2]).code == 0
