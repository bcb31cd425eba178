"""Likely mistakes of clients: noted once, listed in the overview, and without any effect."""

from __future__ import annotations

import msgspec
import pytest
import trio

from rocketmq_emulator.broker.state.consistency import reset_broker
from rocketmq_emulator.facts import MisuseNoticed
from rocketmq_emulator.protocol import catalog
from rocketmq_emulator.protocol.bodies.extensions import BrokerOverview, misuses_of
from tests.support.broker.bench import Bench, Client


def noted(bench: Bench) -> list[tuple[str, str, str]]:
    return [(fact.misuse, fact.client, fact.group) for fact in bench.facts(MisuseNoticed)]


def listed(client: Client) -> list[str]:
    answer = client.must(catalog.GET_BROKER_OVERVIEW)
    found = msgspec.json.decode(answer.body, type=BrokerOverview)
    return [each.misuse for each in misuses_of([found])]


async def test_members_that_subscribe_differently_are_noted_once() -> None:
    bench = Bench()
    one, two = bench.client(), bench.client()
    for version in (1, 2, 3):
        one.heartbeat("c1", topics={"T": "a"}, version=version)
        two.heartbeat("c2", topics={"T": "b"}, version=version + 1)
    assert noted(bench) == [("subscriptions_differ", "c2", "g")]
    (fact,) = bench.facts(MisuseNoticed)
    assert "c2 with 'b', c1 with 'a'" in fact.sentence()
    bench.no_bugs()


@pytest.mark.parametrize("later", [{"T": "b"}, {"U": "a"}])
async def test_one_client_may_change_its_mind_and_so_may_one_that_follows_it(later) -> None:
    bench = Bench()
    one = bench.client()
    one.heartbeat("c1", topics={"T": "a"})
    one.heartbeat("c1", topics=later, version=2)
    one.close()
    bench.client().heartbeat("c2", topics={"T": "c"}, version=3)
    assert noted(bench) == []


async def test_equal_members_are_no_misuse_whatever_order_their_tags_have() -> None:
    bench = Bench()
    bench.client().heartbeat("c1", topics={"T": "a || b", "%RETRY%g": "*"})
    bench.client().heartbeat("c2", topics={"T": "b||a"}, version=2)
    assert noted(bench) == []


async def test_an_expression_of_an_own_client_is_listed_but_logged_by_the_client_only() -> None:
    bench = Bench()
    client = bench.client()
    client.heartbeat("c1", topics={"T": "a | b"})  # as a client of Java
    assert noted(bench) == [("single_bar", "c1", "g")]
    assert listed(client) == ["single_bar", "topic_nobody_made"]


async def test_delays_that_do_not_hold_are_noted_and_the_messages_stored() -> None:
    bench = Bench(release="4.9.7")
    client = bench.client()
    client.heartbeat("p1", producer="pg")
    client.sent("T", properties="DELAY\x0118\x02")
    client.sent("T", properties="TIMER_DELAY_MS\x019\x02")
    client.sent("U", properties="DELAY\x0119\x02")
    assert noted(bench) == [("delay_ignored", "p1", "pg"), ("delay_beyond_table", "p1", "pg")]


async def test_a_time_of_delivery_is_no_misuse_from_5_0_on() -> None:
    bench = Bench(release="5.3.3")
    bench.client().sent("T", properties="TIMER_DELAY_MS\x019\x02")
    assert noted(bench) == []


async def test_tags_that_match_nothing_are_listed_at_once_and_noted_later() -> None:
    bench = Bench()
    client = bench.client()
    client.heartbeat("c1", topics={"T": "paid"})
    client.sent("T", properties="TAGS\x01new\x02")
    assert (noted(bench), listed(client)) == ([], ["tags_match_nothing"])
    client.sent("T", properties="TAGS\x01Paid\x02")
    client.sent("T", properties="TAGS\x01Paid\x02")
    assert noted(bench) == [("tags_match_nothing", "c1", "g")]
    client.sent("T", properties="TAGS\x01paid\x02")
    assert listed(client) == []


async def test_a_reset_forgets_what_was_noticed() -> None:
    bench = Bench()
    client = bench.client()
    client.sent("T", properties="DELAY\x0119\x02")
    reset_broker(bench.broker, bench.now_ms())
    assert listed(client) == []
    client.sent("T", properties="DELAY\x0119\x02")
    assert len(noted(bench)) == 2


async def test_two_connections_that_send_heartbeats_in_turn_share_a_client_id() -> None:
    bench = Bench()
    one, two = bench.client(), bench.client()
    one.heartbeat("c1", topics={"T": "*"})
    await trio.sleep(0.01)
    two.heartbeat("c1", topics={"T": "*"})  # perhaps the same client, connected again
    two.heartbeat("c1", topics={"T": "*"})
    assert noted(bench) == []
    await trio.sleep(0.01)
    one.heartbeat("c1", topics={"T": "*"})
    assert noted(bench) == [("client_id_shared", "c1", "g")]
    assert "client_id_shared" in listed(one)
