"""Consumption on chosen machines, with two forms of strategies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketmq_emulator.client.consumer.group.allocation import AVG, AVG_BY_CIRCLE, pinned, refusing
from rocketmq_emulator.protocol.bodies.routes import starved
from rocketmq_emulator.protocol.queues import MessageQueue

MEMBERS = [f"10.0.0.{number}@1" for number in (1, 2, 3)]
QUEUES = [MessageQueue("T", "broker-a", number) for number in range(6)]


def shares(strategy, queues=QUEUES, members=MEMBERS):
    return {me: strategy.allocate(queues, members, me) for me in members}


def test_what_a_refusing_member_would_have_got_starves() -> None:
    of_two = refusing(["10.0.0.1", "10.0.0.3"])
    assert starved(QUEUES, shares(of_two)) == QUEUES[2:4]


@given(
    st.integers(1, 30),
    st.integers(1, 9),
    st.sets(st.integers(1, 9)),
    st.sampled_from([AVG, AVG_BY_CIRCLE]),
)
def test_pinned_members_share_everything_and_each_queue_once(count, size, chosen, inner) -> None:
    queues = [MessageQueue("T", "broker-a", number) for number in range(count)]
    members = [f"10.0.0.{number}@1" for number in range(1, size + 1)]
    got = shares(pinned([f"10.0.0.{n}" for n in chosen], inner), queues, members)
    owned = sorted(queue for share in got.values() for queue in share)
    assert owned == (queues if chosen & set(range(1, size + 1)) else [])
    assert all(not share for me, share in got.items() if int(me[7:-2]) not in chosen)
