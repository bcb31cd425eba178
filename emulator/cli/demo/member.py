"""A producer or a consumer as a process.

    python -m rocketmq_emulator.cli.demo.member ROLE JSON

It writes its journal to standard output, one fact per line, before anything follows from the
fact: the journal is complete up to the moment of a ``kill -9``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import trio

from rocketmq_emulator.cli.demo.ledger import KINDS
from rocketmq_emulator.cli.demo.timeline import GROUP, PRODUCER_GROUP, TOPIC
from rocketmq_emulator.cli.messages.lines import bodies, is_sendable
from rocketmq_emulator.client import (
    ClientProcess,
    Message,
    Producer,
    ProducerConfig,
    PushConsumer,
    PushConsumerConfig,
    SendError,
)
from rocketmq_emulator.clocks.clock import WallClock
from rocketmq_emulator.facts import NodeStarted
from rocketmq_emulator.facts.journal import Journal
from rocketmq_emulator.facts.logs import WARNINGS, log_to
from rocketmq_emulator.net.tasks import cancelling_nursery
from rocketmq_emulator.processes.stopping import stop_on_signal, stop_with_parent
from rocketmq_emulator.protocol.messages.message import MessageExt

SENDS_AT_ONCE_MAX = 32
ATTEMPTS_MAX, PAUSE_S = 10, 0.5
WORK_S = 0.002  # a listener's time for a line


class MemberConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a member: the JSON argument of its process."""

    name: str
    role: Literal["producer", "consumer"]
    namesrv: str
    timers: dict[str, Any] = {}
    file: str  # of lines to send
    lines_a_second: float = 0.0  # 0: no limit


def main() -> None:
    """Run one member until it has sent all lines, or a signal stops it."""
    own = msgspec.json.decode(sys.argv[1], type=MemberConfig)
    with Path(own.file).open("rb") as file:
        trio.run(_run_member, own, file)


async def _run_member(own: MemberConfig, file: IO[bytes]) -> None:
    clock = WallClock.of_this_machine()
    journal = Journal(own.name, clock, _write, kinds=KINDS)
    log_to(journal, sys.stderr.write, WARNINGS)
    stop = trio.Event()
    async with cancelling_nursery() as watchers:
        watchers.start_soon(stop_on_signal, stop)
        watchers.start_soon(stop_with_parent, stop)
        async with ClientProcess(clock=clock, note=journal.note, wants=journal.wants) as process:
            if own.role == "producer":
                await _produce(own, file, process, stop)
            else:
                await _consume(own, process, journal, stop)


def _write(line: bytes) -> None:
    os.write(1, line)  # no buffer: a kill loses no fact


async def _consume(
    own: MemberConfig, process: ClientProcess, journal: Journal, stop: trio.Event
) -> None:
    config = PushConsumerConfig(
        group=GROUP,
        namesrv=own.namesrv,
        consume_from="CONSUME_FROM_FIRST_OFFSET",
        **own.timers,
    )

    async def on_lines(_messages: list[MessageExt]) -> None:
        await trio.sleep(WORK_S)

    async with PushConsumer(on_lines, {TOPIC: "*"}, config, process=process):
        journal.note(NodeStarted("consumer", "", config.release))
        await stop.wait()


async def _produce(
    own: MemberConfig, file: IO[bytes], process: ClientProcess, stop: trio.Event
) -> None:
    config = ProducerConfig(group=PRODUCER_GROUP, namesrv=own.namesrv, **own.timers)
    numbered = enumerate(line for line in bodies(file) if is_sendable(line))
    async with Producer(config, process=process) as producer:
        began_s = trio.current_time()
        async with cancelling_nursery() as nursery:
            nursery.start_soon(_cancelled_by, stop, nursery.cancel_scope)
            async with trio.open_nursery() as senders:
                for _ in range(SENDS_AT_ONCE_MAX):
                    senders.start_soon(_send, producer, numbered, own, began_s)


async def _cancelled_by(stop: trio.Event, scope: trio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()


async def _send(
    producer: Producer, numbered: Iterator[tuple[int, bytes]], own: MemberConfig, began_s: float
) -> None:
    """Take the next line, wait for its time, send it until stored; several tasks do this."""
    for number, line in numbered:
        if own.lines_a_second:
            await trio.sleep_until(began_s + number / own.lines_a_second)
        for _ in range(ATTEMPTS_MAX):
            try:
                await producer.send(Message(TOPIC, line, keys=str(number + 1)))
            except SendError:
                await trio.sleep(PAUSE_S)  # the journal has SendFailed
            else:
                break


if __name__ == "__main__":
    main()
