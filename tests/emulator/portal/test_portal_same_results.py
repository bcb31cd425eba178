"""The same tests for the trio client, the client for threads and the client for asyncio."""

from __future__ import annotations

import secrets
import threading
import time
from collections import defaultdict

import pytest
import trio

from rocketmq_emulator import (
    BadSelector,
    BadSubscription,
    Cluster,
    ConsumeResult,
    Message,
    MessageIllegal,
    Misuse,
    NoNameServer,
    NoRoute,
    RequestUnanswered,
    by_hash,
)
from rocketmq_emulator.admin.calls import admin_over_tcp
from rocketmq_emulator.protocol.bodies.topics import TopicConfig
from tests.support.portal.client_kinds import FACES

WAIT_S_MAX = 20.0


@pytest.fixture(scope="module", params=FACES)
def face(request):
    with FACES[request.param]() as face:
        yield face


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def subject(cluster):
    return Subject(cluster)


class Subject:
    """A topic and a group that no other test uses, and the messages that were delivered."""

    def __init__(self, cluster) -> None:
        self.topic = f"topic-{secrets.token_hex(4)}"
        self.group = f"group-{self.topic}"
        self.namesrv = cluster.namesrv
        trio.run(self._create_topic)
        self.all: list[tuple[str, object, float]] = []
        self._more = threading.Condition()

    async def _create_topic(self) -> None:
        async with admin_over_tcp(self.namesrv) as admin:
            await admin.create_topic_everywhere(
                TopicConfig(topic_name=self.topic, read_queue_nums=4, write_queue_nums=4)
            )

    def producing(self) -> dict[str, str]:
        return {"namesrv": self.namesrv, "group": f"producers-{self.topic}"}

    def consuming(self, expression="*") -> dict[str, object]:
        subscriptions = {self.topic: expression}
        return {"namesrv": self.namesrv, "group": self.group, "subscriptions": subscriptions}

    def messages(self, count, start=0, **more) -> list[Message]:
        return [
            Message(self.topic, b"body %d" % n, keys=f"{self.topic}-{n}", **more)
            for n in range(start, start + count)
        ]

    def listener(self, name, refuses=lambda message: False):
        def listen(messages, context):
            (message,) = messages
            with self._more:
                self.all.append((name, message, time.monotonic()))
                self._more.notify_all()
            context.delay_level = 1
            return ConsumeResult.RECONSUME_LATER if refuses(message) else ConsumeResult.SUCCESS

        return listen

    def wait_delivered(self, count) -> list[object]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.all) >= count, WAIT_S_MAX), len(self.all)
        return self.delivered()

    def delivered(self) -> list[object]:
        with self._more:
            return [message for _, message, _ in self.all]

    def by(self, name) -> list[object]:
        return [message for by, message, _ in self.all if by == name]


def keys_of(messages) -> list[str]:
    return sorted(message.keys for message in messages)


def wait_until(condition) -> None:
    until_s = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def wait_holding(consumer, topic, count) -> None:
    wait_until(lambda: sum(queue.topic == topic for queue in consumer.queues) == count)


def test_every_way_of_sending_stores_messages_that_are_consumed(face, subject) -> None:
    sent = subject.messages(15, tags="TagA", properties={"城市": "杭州"})
    told = []
    with face.producer(**subject.producing()) as producer:
        results = [producer.send(message) for message in sent[:3]]
        sendings = [producer.start_send(message, told.append) for message in sent[3:6]]
        results += [sending.wait_sent() for sending in sendings]
        results += [producer.send_to_selected(m, by_hash, "A-17") for m in sent[6:9]]
        batch = producer.send_batch(sent[9:12])
        for message in sent[12:]:
            producer.send_oneway(message)
        with face.consumer(subject.listener("one"), **subject.consuming()):
            consumed = subject.wait_delivered(15)
        wait_until(lambda: len(told) == 3)
    assert keys_of(consumed) == keys_of(sent)
    assert all(m.tags == "TagA" and m.get_user_property("城市") == "杭州" for m in consumed)
    assert all(result.is_ok for result in [*results, *told, batch])
    assert len({result.queue for result in results[6:9]}) == 1
    assert {result.msg_id for result in told} == {result.msg_id for result in results[3:6]}


def test_a_request_gets_its_reply_and_without_a_replier_an_error(face, subject) -> None:
    told = []
    with face.producer(**subject.producing()) as producer:
        one, two, three = subject.messages(3)
        with pytest.raises(RequestUnanswered) as caught:
            producer.request(one, timeout_ms=300)
        assert (caught.value.queue.topic, caught.value.queue_offset) == (one.topic, 0)
        with face.consumer(subject.listener("one"), **subject.consuming()):
            requesting = producer.start_request(two, told.append, timeout_ms=60_000)
            subject.wait_delivered(2)
            (request,) = [m for m in subject.by("one") if m.keys == two.keys]
            assert producer.reply_to(request, b"an answer").is_ok
            reply = requesting.wait_reply()
            assert (reply.body, requesting.result) == (b"an answer", reply)
        wait_until(lambda: told == [reply])
        late = producer.start_request(three, timeout_ms=100)
        with pytest.raises(RequestUnanswered):
            late.wait_reply()


def test_a_subscription_to_tags_gets_those_tags_only(face, subject) -> None:
    with face.producer(**subject.producing()) as producer:
        for number, message in enumerate(subject.messages(12)):
            message.tags = "ABC"[number % 3]
            producer.send(message)
    with face.consumer(**subject.consuming("A || C")) as consumer:
        assert {message.tags for message in consumer.messages(count=8)} == {"A", "C"}


def test_a_group_of_two_shares_all_messages_and_none_twice(face, subject) -> None:
    with face.producer(**subject.producing()) as producer:
        for message in subject.messages(8):
            producer.send(message)
        with (
            face.consumer(subject.listener("one"), **subject.consuming()) as one,
            face.consumer(subject.listener("two"), **subject.consuming()) as two,
        ):
            subject.wait_delivered(8)
            wait_holding(one, subject.topic, 4)
            wait_holding(two, subject.topic, 4)
            assert not set(one.queues) & {q for q in two.queues if q.topic == subject.topic}
            wanted = subject.messages(32, start=8)
            for message in wanted:
                producer.send(message)
            # Messages that were delivered before the queues were shared may come twice.
            keys = set(keys_of(wanted))
            wait_until(lambda: keys <= set(keys_of(subject.delivered())))
    assert keys_of(m for m in subject.delivered() if m.keys in keys) == sorted(keys)
    assert subject.by("one")
    assert subject.by("two")


def test_every_member_gets_a_broadcast(face, subject) -> None:
    with face.producer(**subject.producing()) as producer:
        for message in subject.messages(8):
            producer.send(message)
    settings = {"model": "BROADCASTING", **subject.consuming()}
    with (
        face.consumer(subject.listener("one"), instance_name="one", **settings),
        face.consumer(subject.listener("two"), instance_name="two", **settings),
    ):
        subject.wait_delivered(16)
    assert keys_of(subject.by("one")) == keys_of(subject.by("two")) == keys_of(subject.messages(8))


def test_a_refused_message_comes_back_at_the_level_its_listener_chose(face, subject) -> None:
    refused = subject.messages(3)[1].keys
    listener = subject.listener("one", lambda m: m.keys == refused and m.reconsume_times == 0)
    with face.producer(**subject.producing()) as producer:
        for message in subject.messages(3):
            producer.send(message)
    with face.consumer(listener, **subject.consuming()):
        subject.wait_delivered(4)
    (_, _, first_s), (_, again, again_s) = (
        delivery for delivery in subject.all if delivery[1].keys == refused
    )
    assert (again.reconsume_times, again.topic) == (1, subject.topic)
    assert again_s - first_s >= 0.9


def test_a_message_refused_too_often_goes_to_the_dead_letters(face, subject) -> None:
    def listen(messages, _context):
        raise ValueError("no order")

    letters = f"%DLQ%{subject.group}"
    with face.producer(**subject.producing()) as producer:
        producer.send(*subject.messages(1))
        with face.consumer(listen, reconsume_times_max=0, **subject.consuming()):
            wait_until(lambda: has_route(producer, letters))


def has_route(producer, topic) -> bool:
    try:
        return bool(producer.publish_queues(topic))
    except NoRoute:
        return False


def test_each_key_is_consumed_in_order(face, subject) -> None:
    sent = subject.messages(30)
    with face.producer(**subject.producing()) as producer:
        for number, message in enumerate(sent):
            producer.send_to_selected(message, by_hash, f"order-{number % 5}")
    listener = subject.listener("one")
    with face.consumer(listener, orderly=True, lock_first_ms=50, **subject.consuming()):
        consumed = subject.wait_delivered(30)
    order = defaultdict(list)
    for message in consumed:
        order[int(message.keys.rpartition("-")[2]) % 5].append(message.keys)
    assert order == {n: [message.keys for message in sent[n::5]] for n in range(5)}


def test_a_restarted_consumer_goes_on_from_the_stored_offset(face, subject) -> None:
    with face.producer(**subject.producing()) as producer:
        for message in subject.messages(10):
            producer.send(message)
        with face.consumer(**subject.consuming()) as consumer:
            before = list(consumer.messages(count=10))
        for message in subject.messages(10, start=10):
            producer.send(message)
        with face.consumer(**subject.consuming()) as consumer:
            after = list(consumer.messages(count=10))
    assert keys_of(before) == keys_of(subject.messages(10))
    assert keys_of(after) == keys_of(subject.messages(10, start=10))


def test_a_killed_broker_is_left_out_and_used_again_when_it_is_back(face) -> None:
    with Cluster(brokers=2) as cluster:
        subject, acknowledged = Subject(cluster), []
        with (
            face.producer(**subject.producing()) as producer,
            face.consumer(subject.listener("one"), **subject.consuming()),
        ):

            def send_some() -> set[str]:
                results = [producer.send(message) for message in subject.messages(8)]
                acknowledged.extend(result.msg_id for result in results)
                return {result.queue.broker_name for result in results}

            assert send_some() == {"broker-a", "broker-b"}
            cluster.kill("broker-b")
            assert send_some() == {"broker-a"}
            cluster.start("broker-b")
            wait_until(lambda: send_some() == {"broker-a", "broker-b"})
            wait_until(lambda: {m.msg_id for _, m, _ in subject.all} >= set(acknowledged))


def test_errors_are_the_same(face, subject) -> None:
    with face.producer(**subject.producing()) as producer:
        with pytest.raises(MessageIllegal):
            producer.send(Message("", b"no topic"))
        with pytest.raises(MessageIllegal):
            producer.start_send(Message("", b"no topic"))
        with pytest.raises(BadSelector, match="returned None"):
            producer.send_to_selected(Message(subject.topic, b"x"), lambda *_: None)
        with pytest.raises(ValueError, match="no_such"):
            face.producer(no_such=1, **subject.producing())
    consumer = face.consumer(print, **{**subject.consuming(), "subscriptions": {"t": "||"}})
    with pytest.raises(BadSubscription), consumer:
        pass
    with (
        face.producer(group="lonely", namesrv="127.0.0.1:1") as producer,
        pytest.raises(NoNameServer, match=r"127\.0\.0\.1:1"),
    ):
        producer.send(Message("orders", b"x"))


def test_a_consumer_can_be_asked_and_told_while_it_runs(face, subject) -> None:
    with face.producer(**subject.producing()) as producer:
        producer.send(*subject.messages(1))
        listener = subject.listener("one")
        with face.consumer(listener, namesrv=subject.namesrv, group=subject.group) as consumer:
            assert consumer.queues == [] or {q.topic for q in consumer.queues} == {
                f"%RETRY%{subject.group}"
            }
            consumer.subscribe(subject.topic)
            subject.wait_delivered(1)
            held = [queue for queue in consumer.queues if queue.topic == subject.topic]
            wait_until(lambda: 1 in [consumer.offset(queue) for queue in held])
            consumer.suspend()
            consumer.resume()
            consumer.unsubscribe(subject.topic)
            wait_holding(consumer, subject.topic, 0)


def test_queues_are_pulled_from_the_offsets_that_are_asked_for(face, subject) -> None:
    with face.producer(**subject.producing()) as producer:
        results = [
            producer.send_to_selected(message, by_hash, "one queue")
            for message in subject.messages(6)
        ]
    queue = results[0].queue
    with face.pull_consumer(namesrv=subject.namesrv, group=subject.group) as consumer:
        assert queue in consumer.fetch_subscribe_message_queues(subject.topic)
        assert (consumer.min_offset(queue), consumer.max_offset(queue)) == (0, 6)
        first = consumer.pull(queue, 0, messages_max=2)
        rest = consumer.pull_block_if_not_found(queue, first.next_begin_offset)
        assert [*first.messages, *rest.messages]
        assert keys_of([*first.messages, *rest.messages]) == keys_of(subject.messages(6))
        consumer.update_consume_offset(queue, 6)
        assert consumer.fetch_consume_offset(queue) == 6
        with pytest.raises(Misuse):
            consumer.pull(queue, -1)


def test_assigned_queues_are_polled_sought_and_committed(face, subject) -> None:
    with face.producer(**subject.producing()) as producer:
        for message in subject.messages(6):
            queue = producer.send_to_selected(message, by_hash, "one queue").queue
    with face.lite_pull_consumer(namesrv=subject.namesrv, group=subject.group) as consumer:
        consumer.assign([queue])
        assert consumer.queues == [queue]
        consumer.seek_to_begin(queue)
        got = []
        wait_until(lambda: got.extend(consumer.poll(timeout_ms=200)) or len(got) == 6)
        consumer.commit({queue: 4}, persist=True)
        wait_until(lambda: consumer.committed(queue) == 4)
        consumer.seek(queue, 5)
        (again,) = consumer.poll()
    assert keys_of(got) == keys_of(subject.messages(6))
    assert again.keys == subject.messages(6)[5].keys
