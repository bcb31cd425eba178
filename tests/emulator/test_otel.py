"""Spans of the three clients, as OpenTelemetry's SDK exports them."""

from __future__ import annotations

import threading

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from rocketmq_emulator import otel
from rocketmq_emulator.client.consumer.group.listeners import ConsumeResult
from rocketmq_emulator.cluster.spec import ClusterSpec
from rocketmq_emulator.cluster.worlds.embedded import EmbeddedCluster
from rocketmq_emulator.errors.call_errors import BadArgument, BrokerRefused, MessageIllegal
from rocketmq_emulator.protocol.messages.message import Message
from tests.support.client.whole_cluster import in_cluster
from tests.support.portal.client_kinds import FACES


class Spans:
    """A tracer provider of its own, and the spans that it exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def all(self) -> list[ReadableSpan]:
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]


@pytest.fixture
def spans() -> Spans:
    return Spans()


def linked(span: ReadableSpan) -> set[int]:
    return {link.context.span_id for link in span.links}


# One trace, from the send to the listener ---------------------------------------------


def test_a_message_is_one_trace_from_the_send_to_the_listener(spans) -> None:
    async def main(cluster) -> None:
        async def listener(messages):
            inside.append(trace.get_current_span().get_span_context().span_id)

        inside = []
        process = cluster.process()
        traced = otel.traced(listener, group="cg", provider=spans.provider)
        producer = otel.instrument(cluster.a_producer(process), provider=spans.provider)
        async with process, producer:
            with spans.provider.get_tracer("app").start_as_current_span("order") as order:
                message = Message("t", b"hello", tags="TagA", keys=["k1", "k2"])
                sent = await producer.send(message)
            start = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
            async with cluster.a_consumer(process, traced, {"t": "TagA"}, **start) as consumer:
                while not inside:
                    await consumer.resume()
        [send], [processed] = spans.named("send t"), spans.named("process t")
        assert send.parent.span_id == order.get_span_context().span_id
        assert processed.parent.span_id == send.context.span_id
        assert linked(processed) == {send.context.span_id}
        assert len({span.context.trace_id for span in spans.all()}) == 1
        assert inside == [processed.context.span_id]
        assert (send.kind, processed.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        assert message.properties["traceparent"].split("-")[2] == f"{send.context.span_id:016x}"
        assert dict(send.attributes) == {
            "messaging.system": "rocketmq",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": "t",
            "messaging.destination.partition.id": str(sent.queue.queue_id),
            "messaging.message.id": sent.msg_id,
            "messaging.message.body.size": 5,
            "messaging.rocketmq.message.type": "normal",
            "messaging.rocketmq.message.tag": "TagA",
            "messaging.rocketmq.message.keys": ("k1", "k2"),
        }
        assert dict(processed.attributes) == {
            **send.attributes,
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.consumer.group.name": "cg",
        }
        assert send.instrumentation_scope.schema_url == otel.SCHEMA_URL

    in_cluster(main, t=4)


def test_each_message_of_a_batch_has_a_context_of_its_own(spans) -> None:
    async def main(cluster) -> None:
        async def listener(messages):
            batches.append([message.body for message in messages])

        batches = []
        process = cluster.process()
        traced = otel.traced(listener, group="cg", provider=spans.provider)
        producer = otel.instrument(cluster.a_producer(process), provider=spans.provider)
        async with process, producer:
            await producer.send_batch(Message("t", body) for body in (b"1", b"22"))
            start = {"consume_from": "CONSUME_FROM_FIRST_OFFSET", "consume_batch_max": 8}
            async with cluster.a_consumer(process, traced, {"t": "*"}, **start) as consumer:
                while sum(map(len, batches)) < 3:
                    await consumer.resume()
        creates, [send] = spans.named("create t"), spans.named("send t")
        assert [span.kind for span in (*creates, send)] == [
            *(SpanKind.PRODUCER, SpanKind.PRODUCER),
            SpanKind.CLIENT,
        ]
        made = {span.context.span_id for span in creates}
        assert linked(send) == made
        assert send.attributes["messaging.batch.message_count"] == 2
        processed = spans.named("process t")
        assert set().union(*map(linked, processed)) == made
        together = [span for span in processed if len(span.links) == 2]
        assert all(span.parent is None for span in together)
        assert all(span.attributes["messaging.batch.message_count"] >= 2 for span in together)

    in_cluster(main, t=1)


def test_a_message_without_a_context_is_no_child_of_the_one_before(spans) -> None:
    with spans.provider.get_tracer("app").start_as_current_span("loop") as outer:
        message = Message("t", b"x")
        message.msg_id, message.queue_id = "ID", 3
        with otel.processing([message], group="g", provider=spans.provider):
            pass
    [processed] = spans.named("process t")
    assert processed.links == ()
    assert processed.parent.span_id == outer.get_span_context().span_id


def test_baggage_goes_with_the_message(spans) -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        producer = otel.instrument(cluster.a_producer(process), provider=spans.provider)
        async with process, producer:
            token = context.attach(baggage.set_baggage("customer", "17"))
            message = Message("t", b"x")
            await producer.send_oneway(message)
            context.detach(token)
        assert message.properties["baggage"] == "customer=17"

    in_cluster(main, t=1)


# Failures -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
def test_a_listener_that_fails_marks_its_span(spans, is_async) -> None:
    def listen(messages, context):
        if messages[0].body == b"raises":
            raise ValueError("as the test wants it")
        return ConsumeResult.RECONSUME_LATER

    async def listening(messages, context):
        return listen(messages, context)

    async def main(cluster) -> None:
        process = cluster.process()
        traced = otel.traced(
            listening if is_async else listen, group="cg", provider=spans.provider
        )
        async with process, cluster.a_producer(process) as producer:
            await producer.send(Message("t", b"raises"))
            start = {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}
            async with cluster.a_consumer(process, traced, {"t": "*"}, **start) as consumer:
                while len(spans.named("process t")) < 2:
                    await consumer.resume()

    in_cluster(main, t=1)
    failures = {span.attributes["error.type"]: span.status for span in spans.named("process t")}
    assert {kind: status.status_code for kind, status in failures.items()} == {
        "ValueError": StatusCode.ERROR,
        "RECONSUME_LATER": StatusCode.ERROR,
    }
    assert failures["ValueError"].description == "as the test wants it"


def test_a_send_that_fails_ends_its_span_with_the_error(spans) -> None:
    async def main(cluster) -> None:
        process = cluster.process()
        await cluster.start_broker("small", message_bytes_max=100)
        producer = otel.instrument(cluster.a_producer(process), provider=spans.provider)
        async with process, producer:
            queues = await producer.publish_queues("new")
            [small] = [queue for queue in queues if queue.broker_name == "small"][:1]
            large = Message("new", b"x" * 1_000)
            with pytest.raises(BrokerRefused):
                await producer.send(large, queue=small)
            with pytest.raises(BrokerRefused):
                await producer.start_send(large, queue=small).wait_sent()
            with pytest.raises(MessageIllegal):
                await producer.send(Message("%illegal/topic", b"x"))

    in_cluster(main, t=1)
    assert [span.attributes["error.type"] for span in spans.all()] == [
        *("BrokerRefused", "BrokerRefused"),
        "MessageIllegal",
    ]


def test_what_is_no_client_and_what_is_no_message_is_refused(spans) -> None:
    with pytest.raises(BadArgument, match="traced"):
        otel.instrument(object())

    async def main(cluster) -> None:
        process = cluster.process()
        producer = otel.instrument(cluster.a_producer(process), provider=spans.provider)
        async with process, producer:
            for call, given in (("send", 5), ("send_batch", 5), ("send_batch", [5])):
                with pytest.raises(BadArgument):
                    await getattr(producer, call)(given)
            with pytest.raises(BadArgument):
                producer.start_send(5)

    in_cluster(main)
    assert spans.all() == []


# The three clients --------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedCluster(ClusterSpec()) as running:
        yield running


@pytest.fixture(scope="module", params=FACES)
def face(request):
    with FACES[request.param]() as made:
        yield made


def test_the_three_clients_make_the_same_spans(cluster, face, spans, request) -> None:
    topic = request.node.callspec.params["face"]
    where = {"namesrv": cluster.namesrv, "group": f"g-{topic}"}
    made = otel.instrument(face.module.Producer(**where), provider=spans.provider)
    with face.opened(made) as producer:
        producer.send(Message(topic, b"1"))
        producer.start_send(Message(topic, b"2")).wait_sent()
        producer.send_batch([Message(topic, b"3"), Message(topic, b"4")])
        producer.send_oneway(Message(topic, b"5"))
    settings = {**where, "consume_from": "CONSUME_FROM_FIRST_OFFSET", "heartbeat_first_ms": 50}
    lite = face.module.LitePullConsumer({topic: "*"}, **settings)
    received = []
    with face.opened(otel.instrument(lite, provider=spans.provider)) as consumer:
        while len(received) < 5:
            received += consumer.poll()
    sent = [*spans.named(f"send {topic}"), *spans.named(f"create {topic}")]
    assert sorted(span.kind.name for span in sent) == ["CLIENT", *["PRODUCER"] * 5]
    polls = spans.named(f"receive {topic}")
    assert {span.kind for span in polls} == {SpanKind.CLIENT}
    of_messages = {span.context.span_id for span in sent if span.kind is SpanKind.PRODUCER}
    assert set().union(*map(linked, polls)) == of_messages
    assert {span.attributes["messaging.consumer.group.name"] for span in polls} == {f"g-{topic}"}


def test_a_listener_of_any_client_is_traced(cluster, face, spans, request) -> None:
    topic = f"listened-{request.node.callspec.params['face']}"
    where = {"namesrv": cluster.namesrv, "group": f"g-{topic}"}
    made = otel.instrument(face.module.Producer(**where), provider=spans.provider)
    done = threading.Event()

    def listen(_messages, _context):
        done.set()

    traced = otel.traced(listen, group="g", provider=spans.provider)
    with (
        face.opened(made) as producer,
        face.consumer(traced, {topic: "*"}, **where),
    ):
        producer.send(Message(topic, b"1"))
        assert done.wait(30)
    [send], [processed] = spans.named(f"send {topic}"), spans.named(f"process {topic}")
    assert processed.parent.span_id == send.context.span_id
