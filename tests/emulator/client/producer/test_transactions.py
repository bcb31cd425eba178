"""Transactional messages against scripted brokers: requests, their brokers and their times."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.lowlevel

from rocketmq_emulator.client.producer.producer import Producer
from rocketmq_emulator.client.producer.send_kernel import SendStatus
from rocketmq_emulator.client.producer.transaction_producer import TransactionProducer
from rocketmq_emulator.client.producer.transactions import LocalTransactionState
from rocketmq_emulator.errors.call_errors import BrokerRefused, MaybeStored, MessageIllegal
from rocketmq_emulator.facts import (
    CallbackRaised,
    HalfMessageSent,
    LocalTransactionEnded,
    MessageSent,
    Queue,
    TransactionAnswered,
    TransactionCheckDropped,
)
from rocketmq_emulator.protocol import flags
from rocketmq_emulator.protocol.messages.message import Message
from tests.support.client.client_cluster import SILENT, a_message, in_world, sends_of
from tests.support.client.half_messages import a_check, a_half_message

COMMIT = LocalTransactionState.COMMIT_MESSAGE
ROLLBACK = LocalTransactionState.ROLLBACK_MESSAGE
UNKNOW = LocalTransactionState.UNKNOW
RELEASES = ("4.9.8", "5.3.3")


class Listener:
    """Answers what the argument, or ``checked``, says; an exception is raised."""

    def __init__(self, checked=COMMIT) -> None:
        self.executed = []
        self.asked = []
        self.checked = checked

    async def execute_local_transaction(self, message, argument):
        self.executed.append((message.transaction_id, argument))
        return self._answer(argument)

    async def check_local_transaction(self, message):
        self.asked.append(message)
        return self._answer(self.checked)

    def _answer(self, state):
        if isinstance(state, Exception):
            raise state
        return state


class HangingListener(Listener):
    async def check_local_transaction(self, message):
        self.asked.append(message)
        await trio.sleep_forever()


def transacting(steps, *brokers, listener=None, **settings):
    """Run ``main(cluster, producer, listener)`` with these brokers."""

    async def with_cluster(cluster):
        await cluster.start(*(brokers or ("a", "b")), topics={"t": 4})
        async with running(cluster, listener or Listener(), **settings) as producer:
            await steps(cluster, producer, producer.listener)

    in_world(with_cluster)


@asynccontextmanager
async def running(cluster, listener, name="app", **settings):
    settings = {"group": "pg", "namesrv": cluster.namesrv.address, **settings}
    async with (
        cluster.process(name) as process,
        TransactionProducer(listener, process=process, **settings) as producer,
    ):
        producer.listener = listener
        yield producer


def ends_of(broker):
    return [(command.fields(), command.remark) for _, command in broker.ends]


async def the_end(cluster):
    """The one END_TRANSACTION that any broker got: its fields and its remark."""
    await trio.sleep(0.1)
    [found] = [end for broker in cluster.brokers.values() for end in ends_of(broker)]
    return found


# The half message, the local transaction, the end ------------------------------------------


def test_a_half_message_is_marked_and_loses_its_delay() -> None:
    async def main(cluster, producer, listener):
        message = Message("t", b"x", keys="k1", delay_level=3)
        await producer.send_in_transaction(message, COMMIT)
        [(_, request, _)] = cluster.brokers["a"].sends
        found = dict(pair.split("\x01") for pair in request.properties.split("\x02") if pair)
        assert found.pop("UNIQ_KEY") == message.uniq_key
        assert found == {"KEYS": "k1", "WAIT": "true", "TRAN_MSG": "true", "PGROUP": "pg"}
        assert request.sys_flag == flags.TRANSACTION_PREPARED

    transacting(main, "a")


def test_a_strict_producer_refuses_a_delay_that_would_have_no_effect() -> None:
    async def main(cluster, producer, listener):
        with pytest.raises(MessageIllegal, match="its delay level, 3, has no effect"):
            await producer.send_in_transaction(Message("t", b"x", delay_level=3), COMMIT)
        assert sends_of(cluster) == {"a": 0}

    transacting(main, "a", strict=True)


@pytest.mark.parametrize(
    ("state", "flag"), [(COMMIT, "8"), (ROLLBACK, "12"), (UNKNOW, "0"), (None, "0")]
)
@pytest.mark.parametrize("release", RELEASES)
def test_the_state_of_the_local_transaction_is_reported(state, flag, release) -> None:
    async def main(cluster, producer, listener):
        for _ in range(2):
            await producer.send(a_message())  # so that offsets and positions are not 0
        message = a_message()
        result = await producer.send_in_transaction(message, state)
        assert result.local_transaction_state == (state or UNKNOW)
        assert listener.executed == [(result.msg_id, state)]
        fields, remark = await the_end(cluster)
        assert remark is None
        newer = {"topic": "t"} if release == "5.3.3" else {}
        assert fields == newer | {
            "producerGroup": "pg",
            "tranStateTableOffset": str(result.queue_offset),
            "commitLogOffset": str(4_000 + result.queue_offset),
            "commitOrRollback": flag,
            "fromTransactionCheck": "false",
            "msgId": message.uniq_key,
            "bname": "a",
        }
        assert cluster.brokers["a"].ends[0][1].is_one_way
        [fact] = cluster.facts_of(LocalTransactionEnded)
        assert fact == LocalTransactionEnded(
            topic="t",
            queue=Queue("t", "a", result.queue.queue_id),
            offset=result.queue_offset,
            group="pg",
            uniq_key=message.uniq_key,
            outcome=(state or UNKNOW).value,
            error="",
        )

    transacting(main, "a", release=release)


def test_a_half_message_has_a_fact_of_its_own() -> None:
    async def main(cluster, producer, listener):
        result = await producer.send_in_transaction(a_message(), ROLLBACK)
        [fact] = cluster.facts_of(HalfMessageSent)
        assert (fact.uniq_key, fact.attempts, fact.status) == (result.msg_id, 1, "SEND_OK")
        assert not cluster.facts_of(MessageSent)

    transacting(main, "a")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (10, SendStatus.FLUSH_DISK_TIMEOUT),
        (12, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (11, SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
@pytest.mark.parametrize("release", RELEASES)
def test_client_invariant_24_a_half_message_that_is_not_send_ok_is_rolled_back_unexecuted(
    code, status, release
) -> None:
    async def main(cluster, producer, listener):
        cluster.brokers["a"].always = code
        result = await producer.send_in_transaction(a_message(), COMMIT)
        assert (result.status, result.local_transaction_state) == (status, ROLLBACK)
        assert listener.executed == []
        fields, _ = await the_end(cluster)
        assert fields["commitOrRollback"] == "12"

    transacting(main, "a", release=release)


@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ValueError("no money"), "ValueError: no money"),
        (RuntimeError("naïve"), "RuntimeError: naïve"),
    ],
)
def test_a_local_transaction_that_raises_is_unknown_and_the_broker_gets_the_reason(
    raised, text
) -> None:
    async def main(cluster, producer, listener):
        result = await producer.send_in_transaction(a_message(), raised)
        assert result.local_transaction_state is UNKNOW
        fields, remark = await the_end(cluster)
        assert fields["commitOrRollback"] == "0"
        assert remark == f"executeLocalTransactionBranch exception: {text}"
        [noted] = cluster.facts_of(CallbackRaised)
        assert (noted.function, noted.error) == ("execute_local_transaction", text)
        assert cluster.facts_of(LocalTransactionEnded)[0].error == text

    transacting(main, "a")


@pytest.mark.parametrize("returned", [True, "commit", 8])
def test_a_state_of_another_type_is_unknown(returned) -> None:
    async def main(cluster, producer, listener):
        result = await producer.send_in_transaction(a_message(), returned)
        assert result.local_transaction_state is UNKNOW
        [noted] = cluster.facts_of(CallbackRaised)
        assert f"returns a LocalTransactionState or None, not {returned!r}" in noted.error

    transacting(main, "a")


@pytest.mark.parametrize(("answer", "error"), [(13, BrokerRefused), (SILENT, MaybeStored)])
def test_after_a_failed_send_nothing_is_executed_or_reported(answer, error) -> None:
    async def main(cluster, producer, listener):
        cluster.brokers["a"].always = answer
        with pytest.raises(error):
            await producer.send_in_transaction(a_message(), COMMIT)
        await trio.sleep(1)
        assert listener.executed == []
        assert not cluster.brokers["a"].ends
        assert not cluster.facts_of(LocalTransactionEnded)

    transacting(main, "a")


def test_an_illegal_message_is_refused_and_not_marked() -> None:
    async def main(cluster, producer, listener):
        message = Message("t", b"")
        with pytest.raises(MessageIllegal, match="a message has a body"):
            await producer.send_in_transaction(message)
        assert "TRAN_MSG" not in message.properties
        assert sends_of(cluster) == {"a": 0}

    transacting(main, "a")


def test_the_end_goes_to_the_broker_that_stored_the_half_message() -> None:
    async def main(cluster, producer, listener):
        await producer.publish_queues("t")
        for name in ("a", "b"):
            cluster.brokers[name].always = 14  # retried at another broker
        result = await producer.send_in_transaction(a_message(), COMMIT)
        await trio.sleep(0.1)
        assert result.queue.broker_name == "c"
        assert [len(broker.ends) for broker in cluster.brokers.values()] == [0, 0, 1]

    transacting(main, "a", "b", "c")


def test_the_end_goes_to_a_master_or_nowhere() -> None:
    class Slow(Listener):
        async def execute_local_transaction(self, message, argument):
            await trio.sleep(70)  # meanwhile the route is polled
            return COMMIT

    async def main(cluster, producer, listener):
        async def lose_the_master():
            await trio.sleep(1)
            broker = cluster.brokers["a"]
            broker.broker_id = 1  # a slave
            cluster.namesrv.routes["t"] = cluster.route()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(lose_the_master)
            result = await producer.send_in_transaction(a_message())
        assert result.local_transaction_state is COMMIT
        [fact] = cluster.facts_of(LocalTransactionEnded)
        assert fact.error == "not reported: a has no master"
        assert not cluster.brokers["a"].ends

    transacting(main, "a", listener=Slow())


def test_a_transaction_that_is_cancelled_reports_nothing() -> None:
    class Slow(Listener):
        async def execute_local_transaction(self, message, argument):
            await trio.sleep(10)

    async def main(cluster, producer, listener):
        with trio.move_on_after(1) as scope:
            await producer.send_in_transaction(a_message())
        await trio.sleep(1)
        assert scope.cancelled_caught
        assert not cluster.brokers["a"].ends

    transacting(main, "a", listener=Slow())


@pytest.mark.parametrize(
    ("release", "is_named"),
    [("4.9.4", False), ("4.9.5", True), ("5.0.0", False), ("5.1.0", True)],
)
def test_the_end_names_the_broker_from_4_9_5_and_5_1_0_on(release, is_named) -> None:
    async def main(cluster, producer, listener):
        await producer.send_in_transaction(a_message(), COMMIT)
        cluster.brokers["a"].ask(a_check(), a_half_message())
        await trio.sleep(0.1)
        names = [fields.get("bname") for fields, _ in ends_of(cluster.brokers["a"])]
        assert names == (["a", "asked"] if is_named else [None, None])

    transacting(main, "a", release=release, heartbeat_first_ms=0)


@pytest.mark.parametrize(("release", "is_named"), [("5.2.0", False), ("5.3.0", True)])
def test_the_end_names_the_topic_from_5_3_0_on(release, is_named) -> None:
    async def main(cluster, producer, listener):
        await producer.send_in_transaction(a_message(), COMMIT)
        cluster.brokers["a"].ask(a_check(), a_half_message())
        await trio.sleep(0.1)
        topics = [fields.get("topic") for fields, _ in ends_of(cluster.brokers["a"])]
        assert topics == (["t", "RMQ_SYS_TRANS_HALF_TOPIC"] if is_named else [None, None])

    transacting(main, "a", release=release)


# Checks -------------------------------------------------------------------------------------


def asked(steps, listener=None, **settings):
    """As ``transacting`` with one broker, to which the producer has sent a heartbeat."""

    async def main(cluster, producer, listener):
        await producer.publish_queues("t")
        await trio.sleep(2)
        await steps(cluster.brokers["a"], producer, listener)

    transacting(main, "a", listener=listener, **settings)


@pytest.mark.parametrize(("state", "flag"), [(COMMIT, "8"), (ROLLBACK, "12"), (UNKNOW, "0")])
def test_a_check_is_answered_with_its_own_fields_and_marked(state, flag) -> None:
    async def main(broker, producer, listener):
        broker.ask(a_check(), a_half_message())
        await trio.sleep(0.1)
        [message] = listener.asked
        assert (message.topic, message.queue_id, message.body) == ("t", 2, b"paid")
        assert message.transaction_id == "K1"
        [(fields, remark)] = ends_of(broker)
        assert remark is None
        assert fields == {
            "producerGroup": "pg",
            "tranStateTableOffset": "7",
            "commitLogOffset": "7000",
            "commitOrRollback": flag,
            "fromTransactionCheck": "true",
            "msgId": "K1",
            "transactionId": "T1",
            "bname": "asked",
        }
        assert broker.cluster.facts_of(TransactionAnswered) == [
            TransactionAnswered(group="pg", uniq_key="K1", outcome=state.value, error="")
        ]

    asked(main, Listener(state))


def test_a_check_is_answered_to_the_address_that_asked_and_not_to_the_broker_it_names() -> None:
    async def main(cluster, producer, listener):
        await producer.publish_queues("t")
        await trio.sleep(2)
        cluster.brokers["b"].ask(a_check(bname="a"), a_half_message())
        await trio.sleep(0.1)
        assert [len(broker.ends) for broker in cluster.brokers.values()] == [0, 1]

    transacting(main, "a", "b")


def test_a_half_message_without_a_key_is_named_by_the_id_of_its_store() -> None:
    async def main(broker, producer, listener):
        broker.ask(a_check(), a_half_message(key=""))
        await trio.sleep(0.1)
        [(fields, _)] = ends_of(broker)
        assert fields["msgId"] == "0" * 16 + (7_000).to_bytes(8, "big").hex().upper()

    asked(main)


def test_a_check_whose_listener_raises_is_answered_unknown_and_the_next_one_as_usual() -> None:
    async def main(broker, producer, listener):
        broker.ask(a_check(), a_half_message())
        await trio.sleep(0.1)
        listener.checked = COMMIT
        broker.ask(a_check(), a_half_message())
        await trio.sleep(0.1)
        (first, remark), (second, _) = ends_of(broker)
        assert (first["commitOrRollback"], second["commitOrRollback"]) == ("0", "8")
        assert remark == "checkLocalTransactionState Exception: KeyError: 'K1'"
        [noted] = broker.cluster.facts_of(CallbackRaised)
        assert noted.function == "check_local_transaction"

    asked(main, Listener(KeyError("K1")))


@pytest.mark.parametrize(
    "body",
    [
        a_half_message("another group"),
        a_half_message(""),
        a_half_message()[:-3],
        a_half_message()[:20],
        b"",
        b"\xff" * 100,
    ],
    ids=["another group", "no group", "cut", "cut early", "empty", "noise"],
)
def test_a_check_for_another_group_or_without_a_message_is_ignored(body) -> None:
    async def main(broker, producer, listener):
        broker.ask(a_check(), body)
        broker.ask(a_check(msg_id="next"), a_half_message())
        await trio.sleep(0.1)
        assert len(listener.asked) == len(broker.ends) == 1

    asked(main)


def test_a_producer_without_a_listener_ignores_checks_of_its_group() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        settings = {"group": "pg", "namesrv": cluster.namesrv.address}
        async with cluster.process() as process, Producer(process=process, **settings) as producer:
            await producer.send(a_message())
            await trio.sleep(2)
            cluster.brokers["a"].ask(a_check(), a_half_message())
            await trio.sleep(1)
            assert not cluster.brokers["a"].ends
            await producer.send(a_message())

    in_world(main)


def test_a_check_that_hangs_delays_only_checks_and_those_above_the_limit_are_dropped() -> None:
    async def main(broker, producer, listener):
        for n in range(5):
            broker.ask(a_check(), a_half_message(key=f"K{n}"))
            await trio.sleep(0.1)
        assert [message.uniq_key for message in listener.asked] == ["K0"]
        dropped = broker.cluster.facts_of(TransactionCheckDropped)
        assert [(fact.uniq_key, fact.waiting_count) for fact in dropped] == [("K3", 2), ("K4", 2)]
        result = await producer.send_in_transaction(a_message(), COMMIT)
        await trio.sleep(0.1)
        assert [fields["msgId"] for fields, _ in ends_of(broker)] == [result.msg_id]

    asked(main, HangingListener(), check_requests_max=2)


def test_two_thousand_checks_wait_by_default_and_one_listener_runs() -> None:
    async def main(broker, producer, listener):
        assert producer.config.check_requests_max == 2_000
        assert producer.config.check_threads_max == 1
        for n in range(3):
            broker.ask(a_check(), a_half_message(key=f"K{n}"))
        await trio.sleep(0.1)
        assert len(listener.asked) == 1

    asked(main, HangingListener())


def test_several_checks_run_at_once_if_configured() -> None:
    async def main(broker, producer, listener):
        for n in range(3):
            broker.ask(a_check(), a_half_message(key=f"K{n}"))
        await trio.sleep(0.1)
        assert len(listener.asked) == 2

    asked(main, HangingListener(), check_threads_max=2)


def test_a_producer_that_hangs_in_a_check_can_be_closed() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        listener = HangingListener()
        async with running(cluster, listener) as producer:
            await producer.publish_queues("t")
            await trio.sleep(2)
            cluster.brokers["a"].ask(a_check(), a_half_message())
            await trio.sleep(0.1)
        assert len(listener.asked) == 1
        assert len(cluster.brokers["a"].unregistered) == 1

    in_world(main)


def test_another_producer_of_the_group_is_asked_before_it_has_sent_anything() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        async with running(cluster, Listener(), release="5.3.3", topics=["t"]):
            cluster.brokers["a"].ask(a_check(), a_half_message())  # it has sent a heartbeat
            await trio.sleep(0.1)
            [(fields, _)] = ends_of(cluster.brokers["a"])
            assert fields["commitOrRollback"] == "8"

    in_world(main)


def test_up_to_5_1_0_a_new_producer_is_asked_through_the_route_of_the_default_topic() -> None:
    async def main(cluster):
        await cluster.start("a", topics={"t": 4})
        cluster.namesrv.offer_default_topic()
        async with running(cluster, Listener(), release="4.9.8"):
            await trio.sleep(1.1)  # its first heartbeat comes after a second
            cluster.brokers["a"].ask(a_check(), a_half_message())
            await trio.sleep(0.1)
            assert len(cluster.brokers["a"].ends) == 1

    in_world(main)
