"""Requests and replies: a reply needs a connection that the broker knows as the requester's.

A broker finds the requester by its client id, which only heartbeats enter in its table.  The
clients are programs of their own: one requests every second, the other replies.
"""

from __future__ import annotations

from contextlib import suppress

import trio

from rocketmq_emulator.client import (
    ClientError,
    ClientProcess,
    Message,
    MessageExt,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
)
from rocketmq_emulator.scenarios import Run, metric, scenario

REQUEST_S, REQUEST_MS_MAX = 1.0, 900


async def request(process: ClientProcess, namesrv: str, release: str, seconds: float) -> None:
    """Request once a second, whether or not replies come."""
    config = ProducerConfig(namesrv=namesrv, group="requesters", release=release)
    async with Producer(config, process=process) as producer:
        until_s = trio.current_time() + seconds
        while trio.current_time() < until_s:
            with suppress(ClientError):
                await producer.request(Message("asks", b"how much?"), timeout_ms=REQUEST_MS_MAX)
            await trio.sleep(REQUEST_S)


async def reply(process: ClientProcess, namesrv: str, release: str, seconds: float) -> None:
    """Reply to each request; a reply that the broker cannot push is lost."""
    config = ProducerConfig(namesrv=namesrv, group="repliers", release=release)
    consuming = PushConsumerConfig(namesrv=namesrv, group="repliers", release=release)
    async with Producer(config, process=process) as producer:

        async def listen(messages: list[MessageExt]) -> None:
            for message in messages:
                with suppress(ClientError):
                    await producer.reply_to(message, b"ten")

        async with PushConsumer(listen, {"asks": "*"}, consuming, process=process):
            await trio.sleep(seconds)


@scenario(issue="apache/rocketmq#2435")
async def replies_are_lost_after_a_reconnect(run: Run, release: str = "4.9.7") -> None:
    """The requester's connection is reset, and its replies are lost until its next heartbeat.

    The client connects again with its next request, and the request is stored and consumed.  But
    the broker pushes replies to the connection that the client's heartbeats registered, and that
    one has closed: the replier gets "channel not found".  Up to 5.1.4 the next heartbeat comes
    within 30 s; since 5.2.0 a client sends one when it connects.
    """
    await run.cluster(brokers=1, topics={"asks": 1}, release=release)
    arguments = {"release": release, "seconds": 110}
    run.program("replier", reply, arguments)
    await run.sleep(10)
    run.program("requester", request, {**arguments, "seconds": 90})
    await run.sleep(33)
    with run.cut(between=("requester", "broker-a")):
        await run.sleep(2)
    await run.sleep(75)
    run.lasts(120)
    run.expect(metric("requests_sent") >= 50, metric("unanswered_s") <= 5)
