"""A pull of a client that reads too slowly gets no answer, if a setting wants so."""

from __future__ import annotations

import pytest

from rocketmq_emulator.facts import PullDropped
from rocketmq_emulator.protocol.codes import ResponseCode
from tests.support.broker.bench import Bench
from tests.support.broker.store_makers import LAST_4, LAST_5

TOPIC = "orders"
WRITABLE_BYTES = 64 * 1024


@pytest.mark.parametrize(
    ("release", "is_on", "waiting_bytes", "is_dropped"),
    [
        (LAST_5, True, WRITABLE_BYTES + 1, True),
        ("5.0.0", True, WRITABLE_BYTES + 1, True),
        (LAST_5, True, WRITABLE_BYTES, False),
        (LAST_5, False, WRITABLE_BYTES + 1, False),
        (LAST_4, True, WRITABLE_BYTES + 1, False),
    ],
)
async def test_a_pull_of_a_client_that_reads_slowly_gets_no_answer_if_a_setting_wants_so(
    release: str, waiting_bytes: int, autojump_clock, *, is_on: bool, is_dropped: bool
) -> None:
    bench = Bench(release=release, network_flow_control=is_on)
    client = bench.client()
    client.sent(TOPIC)
    client.heartbeat("one", topics={TOPIC: "*"})
    bench.broker.waiting_bytes = lambda _peer: waiting_bytes
    answer = client.pull(TOPIC, 0, flags=0)
    assert (answer is None) == is_dropped
    assert [fact.waiting_bytes for fact in bench.facts(PullDropped)] == [
        waiting_bytes
    ] * is_dropped
    bench.no_bugs()


async def test_what_has_no_messages_is_answered_at_any_time(autojump_clock) -> None:
    bench = Bench(release=LAST_5, network_flow_control=True)
    client = bench.client()
    client.sent(TOPIC)
    client.heartbeat("one", topics={TOPIC: "*"})
    bench.broker.waiting_bytes = lambda _peer: 10**6
    answer = client.pull(TOPIC, 9, flags=0)
    assert answer is not None
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED


async def test_a_held_pull_that_finds_its_client_slow_is_dropped_too(autojump_clock) -> None:
    bench = Bench(release=LAST_5, network_flow_control=True)
    client = bench.client()
    client.sent(TOPIC)
    client.heartbeat("one", topics={TOPIC: "*"})
    assert client.pull(TOPIC, 1) is None
    bench.broker.waiting_bytes = lambda _peer: 10**6
    bench.client().sent(TOPIC)
    assert client.answer_to(client.last_opaque) is None
    assert len(bench.facts(PullDropped)) == 1
    bench.no_bugs()


async def test_the_bytes_are_those_that_wait_at_the_server(autojump_clock, monkeypatch) -> None:
    bench = Bench(release=LAST_5)
    client = bench.client()
    (peer,) = bench.server.connections
    assert bench.server.waiting_bytes(peer) == 0
    monkeypatch.setattr(client, "unsent_bytes", lambda: 4711)
    assert bench.server.waiting_bytes(peer) == 4711
    client.close()
    assert bench.server.waiting_bytes(peer) == 0
