"""What an acting master may not store: sent to another broker, tried again, or given up."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import pytest
import trio
import trio.testing

from rocketmq_emulator.broker.failover.escape_bridge import EscapeBridge, Targets
from rocketmq_emulator.broker.store.appender import MessageToStore
from rocketmq_emulator.broker.store.escaping import half_again, of_delay_level
from rocketmq_emulator.client import Message
from rocketmq_emulator.protocol.bodies.body import encode_body
from rocketmq_emulator.protocol.bodies.routes import BrokerData, QueueData, TopicRouteData
from rocketmq_emulator.protocol.command import RemotingCommand
from rocketmq_emulator.protocol.messages.properties import decode_properties
from rocketmq_emulator.protocol.queues import MessageQueue
from tests.support.broker.acting_clusters import ActingRun, run_acting
from tests.support.broker.bench import Bench
from tests.support.broker.slave_benches import a_slave
from tests.support.broker.store_makers import LAST_5, a_message

ESCAPING = {"brokers": 2, "remote_escape": True}
AWAY_S = 60


def queues(*names: str) -> list[MessageQueue]:
    return [MessageQueue("orders", name, number) for name in names for number in range(2)]


def test_queues_are_used_in_turn_and_those_of_one_broker_can_be_avoided() -> None:
    targets = Targets(queues("a", "b"), random.Random(1))
    assert {targets.next_queue() for _ in range(4)} == set(queues("a", "b"))
    assert {targets.next_queue("a") for _ in range(8)} == set(queues("b"))
    only = Targets(queues("a"), random.Random(1))
    assert only.next_queue("a").broker_name == "a"


def changed(message: MessageToStore) -> dict[str, str]:
    return decode_properties(message.properties)


def test_a_delayed_message_is_sent_without_its_delay() -> None:
    text = "DELAY\x014\x02KEYS\x01k\x02REAL_TOPIC\x01orders\x02"
    sent = of_delay_level(a_message(b"late", text))
    assert changed(sent) == {"KEYS": "k", "REAL_TOPIC": "orders", "WAIT": "false"}


def test_a_half_message_is_sent_as_its_producer_sent_it() -> None:
    text = (
        "REAL_TOPIC\x01orders\x02REAL_QID\x013\x02TRAN_PREPARED_QUEUE_OFFSET\x017\x02PGROUP\x01pg"
    )
    sent = half_again(a_message(b"half", text))
    assert (sent.topic, sent.queue_id, sent.sys_flag) == ("orders", 3, 4)
    marks = {"REAL_TOPIC": "orders", "PGROUP": "pg", "TRAN_MSG": "true", "WAIT": "false"}
    assert changed(sent) == marks


# Whole clusters -----------------------------------------------------------------------


HALF = Message("orders", b"half")


def run_away(
    message: Message, *, away_s: int = AWAY_S, back: bool = True, **settings: Any
) -> ActingRun:
    """broker-a gets *message*, dies when its slave has copied it, and comes back perhaps."""

    async def script(cluster: Any, producer: Any) -> None:
        await trio.sleep(6)
        for name in cluster.spec.master_names:
            await cluster.create_orders(name)
        await trio.sleep(64)
        if message is HALF:
            await cluster.send_half("broker-a")
        else:
            await producer.send(message, queue=MessageQueue("orders", "broker-a", 0))
        await trio.sleep(1)
        cluster.kill("broker-a")
        await trio.sleep(away_s)
        if back:
            await cluster.restart("broker-a")
            await trio.sleep(60)

    return run_acting(script, **settings)


def stored(ran: ActingRun, node: str) -> list[dict[str, Any]]:
    facts = ran.facts(node, "MessageStored")
    return [fact for fact in facts if fact["queue"]["topic"] == "orders"]


DELAYED, TIMED = (
    Message("orders", b"late", delay_level=3),
    Message("orders", b"late", delay_ms=10_000),
)
BOTH_KINDS = pytest.mark.parametrize(
    ("message", "service"), [(DELAYED, "delay level"), (TIMED, "timer")]
)


@BOTH_KINDS
def test_a_due_message_goes_to_another_master_and_once_only(
    message: Message, service: str
) -> None:
    ran = run_away(message, **ESCAPING)
    (escaped,) = ran.facts("broker-a-1", "MessageEscaped")
    assert (escaped["service"], escaped["to_broker"]) == (service, "broker-b")
    assert len(stored(ran, "broker-b")) == 1
    assert stored(ran, "broker-a") == [], "its master took the slave's progress back"


@BOTH_KINDS
def test_without_another_master_the_escape_fails(message: Message, service: str) -> None:
    ran = run_away(message, brokers=1, remote_escape=True, back=False)
    (failed,) = ran.facts("broker-a-1", "MessageNotEscaped")
    assert (failed["service"], failed["reason"]) == (
        service,
        "orders has no queue at another master",
    )


@pytest.mark.parametrize(("release", "tries_ms"), [("5.3.3", 1_000), ("5.3.1", 150)])
def test_a_timer_message_that_fails_to_escape_is_dropped_after_three_or_four_tries(
    release: str, tries_ms: int
) -> None:
    ran = run_away(TIMED, brokers=1, remote_escape=True, back=False, release=release)
    (failed_ms,) = ran.times_of("broker-a-1", "MessageNotEscaped")
    (dropped_ms,) = ran.times_of("broker-a-1", "TimerMessageDropped")
    assert tries_ms <= dropped_ms - failed_ms <= tries_ms + 200


def test_a_timer_message_that_fails_to_escape_is_kept_if_it_is_to_be_retried() -> None:
    settings = {"brokers": 1, "remote_escape": True, "timer_retry_until_success": True}
    ran = run_away(TIMED, back=False, **settings)
    assert len(ran.facts("broker-a-1", "MessageNotEscaped")) == 1
    assert ran.facts("broker-a-1", "TimerMessageDropped") == []


def test_a_delayed_message_is_tried_again_until_another_master_has_its_topic() -> None:
    async def create_topic_later(cluster: Any, producer: Any) -> None:
        await trio.sleep(6)
        await cluster.create_orders("broker-a")
        await trio.sleep(64)
        await producer.send(DELAYED, queue=MessageQueue("orders", "broker-a", 0))
        await trio.sleep(1)
        cluster.kill("broker-a")
        await trio.sleep(15)
        await cluster.create_orders("broker-b")
        await trio.sleep(1)

    ran = run_acting(create_topic_later, **ESCAPING)
    assert len(ran.facts("broker-a-1", "MessageNotEscaped")) == 1
    assert len(stored(ran, "broker-b")) == 1


def test_r39_without_remote_escape_a_delayed_message_waits_for_the_master() -> None:
    ran = run_away(DELAYED, brokers=2)
    assert ran.facts("broker-a-1", "MessageEscaped") == []
    assert stored(ran, "broker-b") == []
    (at_ms,) = [
        entry["at_ms"]
        for entry in ran.of("broker-a", "MessageStored")
        if entry["fact"]["queue"]["topic"] == "orders"
    ]
    online_ms = ran.times_of("broker-a", "PreOnlineEnded")[-1]
    assert 0 <= at_ms - online_ms <= 1_200


def test_r39_since_5_3_2_a_timer_message_is_dropped_after_three_tries() -> None:
    ran = run_away(TIMED, brokers=2)
    (dropped,) = ran.facts("broker-a-1", "TimerMessageDropped")
    assert "slave" in dropped["reason"]
    assert stored(ran, "broker-a") == [], "the master skips what its slave's checkpoint has passed"


def test_with_retries_until_success_a_timer_message_waits_for_the_master() -> None:
    ran = run_away(TIMED, brokers=2, timer_retry_until_success=True)
    assert ran.facts("broker-a-1", "TimerMessageDropped") == []
    assert len(stored(ran, "broker-a")) == 1


# Half messages ------------------------------------------------------------------------


def test_a_half_message_however_young_goes_to_another_master_which_checks_it() -> None:
    ran = run_away(HALF, **ESCAPING)
    (escaped,) = ran.facts("broker-a-1", "MessageEscaped")
    assert (escaped["service"], escaped["uniq_key"]) == ("transaction check", "HALF")
    (half,) = ran.facts("broker-b", "HalfMessageStored")
    assert half["uniq_key"] == "HALF"
    checked = ran.facts("broker-b", "TransactionChecked")
    assert {fact["uniq_key"] for fact in checked} == {"HALF"}
    assert ran.facts("broker-a", "TransactionChecked") == []
    assert ran.facts("broker-a-1", "TransactionChecked") == []


@pytest.mark.parametrize("settings", [{"brokers": 2}, {"brokers": 1, "remote_escape": True}])
def test_bug_15_a_half_message_that_cannot_escape_is_skipped_and_never_checked(
    settings: dict[str, Any],
) -> None:
    ran = run_away(HALF, **settings)
    began_ms = ran.times_of("broker-a-1", "ActingMasterBegan")[0]
    (skipped,) = ran.facts("broker-a-1", "HalfMessageSkipped")
    (skipped_ms,) = ran.times_of("broker-a-1", "HalfMessageSkipped")
    assert skipped["tries"] == 11
    assert 35_000 <= skipped_ms - began_ms <= 36_500, "a pass after 30 s, and 5.5 s of tries"
    assert ran.facts("broker-a", "TransactionChecked") == []


def test_before_5_1_an_acting_master_sends_no_half_message_away() -> None:
    ran = run_away(HALF, release="5.0.0", **ESCAPING)
    assert len(ran.facts("broker-a-1", "ActingMasterBegan")) == 1
    assert ran.facts("broker-a-1", "MessageEscaped") == []
    assert ran.facts("broker-a-1", "HalfMessageSkipped") == []


class TwoMasters:
    """A client whose NameServer has ``orders`` at both broker names, and that records sends."""

    def __init__(self, bench: Bench, perm_of_b: int = 6) -> None:
        self.clock, self.sent_to = bench.clock, list[str]()
        data = [
            BrokerData(broker_name=f"broker-{each}", broker_addrs={0: f"1.1.1.1:{port}"})
            for each, port in (("a", 1), ("b", 2))
        ]
        perms = {"broker-a": 6, "broker-b": perm_of_b}
        queues = [
            QueueData(
                broker_name=each.broker_name, write_queue_nums=1, perm=perms[each.broker_name]
            )
            for each in data
        ]
        self._route = encode_body(
            TopicRouteData(queue_datas=queues, broker_datas=data), bench.broker.release
        )

    def batch(self) -> Any:
        return nullcontext()

    async def invoke(self, address: str, rpc: Any, *_: Any, **__: Any) -> RemotingCommand:
        if rpc.name == "GET_ROUTEINFO_BY_TOPIC":
            return RemotingCommand(code=0, body=self._route)
        self.sent_to.append(address)
        return RemotingCommand(code=0)


@pytest.mark.parametrize(
    ("release", "service", "addresses"),
    [
        ("5.2.0", "timers", {"1.1.1.1:2"}),
        ("5.3.0", "timers", {"1.1.1.1:2"}),
        ("5.3.0", "delays", {"1.1.1.1:1", "1.1.1.1:2"}),
    ],
)
async def test_only_a_delayed_message_may_go_to_the_own_name_and_before_5_3_a_turn_is_lost(
    nursery: trio.Nursery, release: str, service: str, addresses: set[str]
) -> None:
    slave = a_slave(release, slave_acting_master=True, remote_escape=True)
    client: Any = TwoMasters(slave)
    bridge = EscapeBridge(
        slave.broker, client, nursery, name_servers=lambda: ("n:1",), rng=random.Random(1)
    )
    bridge.connect()
    escape = getattr(slave.broker, service).escape
    outcomes: list[str] = []
    for _ in range(4):
        escape(a_message(b"late", topic="orders"), lambda reason, _ms: outcomes.append(reason))
        await trio.testing.wait_all_tasks_blocked()
    assert set(client.sent_to) == addresses
    lost = [reason for reason in outcomes if reason.startswith("the turn fell on")]
    assert len(lost) == (2 if release == "5.2.0" else 0)
    assert outcomes.count("") == 4 - len(lost)


async def test_no_message_goes_to_a_queue_that_is_read_only(nursery: trio.Nursery) -> None:
    slave = a_slave(LAST_5, slave_acting_master=True, remote_escape=True)
    client: Any = TwoMasters(slave, perm_of_b=4)
    bridge = EscapeBridge(
        slave.broker, client, nursery, name_servers=lambda: ("n:1",), rng=random.Random(1)
    )
    bridge.connect()
    escape = slave.broker.delays.escape
    assert escape is not None
    for _ in range(4):
        escape(a_message(b"late", topic="orders"), lambda _reason, _ms: None)
        await trio.testing.wait_all_tasks_blocked()
    assert client.sent_to == ["1.1.1.1:1"] * 4
